/**
 * Computes SHA-256 of keys and files, and compares digests in constant time. Uses the hasher of Bun, because loading
 * `node:crypto` takes 6 ms of the start. Only TLS loads that module.
 */

/** Returns the 32 bytes of the SHA-256 of `data`. A string is hashed as UTF-8. */
export function sha256(data: string | Uint8Array): Uint8Array {
  return new Bun.CryptoHasher("sha256").update(data).digest();
}

/** Reports whether two digests are equal. The time does not depend on where they differ. Both must have the same length. */
export function isSameDigest(one: Uint8Array, other: Uint8Array): boolean {
  let differences = one.length ^ other.length;
  for (let i = 0; i < one.length; i++) differences |= one[i]! ^ (other[i] ?? 0);
  return differences === 0;
}
