/** Computes fingerprints of bytes and of blocks, to notice that two are not the same. */

/** Bytes of a payload that are read, at each end. */
const READ_MOST = 4096;
const OFFSET = 0x811c9dc5;
const PRIME = 0x01000193;

/** Returns 32 bits of the FNV-1a hash. Of long bytes, only both ends and the length count. */
export function fingerprint(bytes: Uint8Array): number {
  let hash = OFFSET ^ bytes.length;
  const head = Math.min(bytes.length, READ_MOST);
  for (let at = 0; at < head; at++) hash = Math.imul(hash ^ bytes[at]!, PRIME);
  for (let at = Math.max(head, bytes.length - READ_MOST); at < bytes.length; at++)
    hash = Math.imul(hash ^ bytes[at]!, PRIME);
  return hash >>> 0;
}

/** Returns a fingerprint of 52 bits of tokens between two texts. */
export function blockFingerprint(before: string, tokens: readonly number[], after: string): number {
  let low = OFFSET;
  let high = OFFSET ^ 0x5bd1e995;
  const take = (word: number) => {
    low = Math.imul(low ^ word, PRIME);
    high = Math.imul(high ^ (word + (low >>> 15)), 0x85ebca6b);
  };
  for (let at = 0; at < before.length; at++) take(before.charCodeAt(at));
  take(-1);
  for (const token of tokens) take(token | 0);
  take(-2);
  for (let at = 0; at < after.length; at++) take(after.charCodeAt(at));
  return (high >>> 12) * 2 ** 32 + (low >>> 0);
}
