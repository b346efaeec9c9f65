/** Lists the algorithms of block hashes. Apart from the hashing itself, because the options of the library read them everywhere. */

/** Values of `--prefix-caching-hash-algo`. */
export const HASH_ALGORITHMS = ["sha256", "sha256_cbor", "xxhash", "xxhash_cbor"] as const;
export type HashAlgorithm = (typeof HASH_ALGORITHMS)[number];
