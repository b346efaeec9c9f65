// What identifies a block's content? The parent's hash and the block's tokens, folded one by one; adapter and salt
// enter the first parent. 64 bits, never 0. These are the core's own hashes: KV events
// (events.ts) carry them too, and not the SHA-256 or xxHash that vLLM can be told to use.

export function rootHash(lora: i32, saltLo: i32, saltHi: i32): u64 {
  return fold(fold(fold(0x9e3779b97f4a7c15, lora), saltLo), saltHi);
}

export function fold(hash: u64, token: i32): u64 {
  hash = (hash ^ <u64>(<u32>token)) * 0xff51afd7ed558ccd;
  return hash ^ (hash >> 32);
}

/** The finished hash of a full block. */
export function seal(hash: u64): u64 {
  hash = (hash ^ (hash >> 29)) * 0xc4ceb9fe1a85ec53;
  hash ^= hash >> 32;
  return hash === 0 ? 1 : hash;
}
