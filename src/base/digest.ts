/**
 * SHA-256 of keys and files, and a comparison of digests in constant time. Bun's own hasher stands in for `node:crypto`,
 * which is loaded only for TLS: it takes 6 ms of the start.
 */

/** Returns the 32 bytes of the SHA-256 of `data`. A string is hashed as UTF-8. */
export function sha256(data: string | Uint8Array): Uint8Array {
  return new Bun.CryptoHasher("sha256").update(data).digest();
}

/** Reports whether two digests are equal. Takes the same time wherever they differ. The lengths must be equal. */
export function isSameDigest(one: Uint8Array, other: Uint8Array): boolean {
  let differences = one.length ^ other.length;
  for (let i = 0; i < one.length; i++) differences |= one[i]! ^ (other[i] ?? 0);
  return differences === 0;
}
