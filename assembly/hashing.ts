// Hashes the content of blocks. A block's hash depends on its parent's hash and its own tokens. LoRA adapter and cache
// salt enter the first parent. Hashes have 64 bits and are never 0. KV events (events.ts) carry these hashes, not the
// SHA-256 or xxHash that a real vLLM can be configured to use.

export function rootHash(lora: i32, saltLo: i32, saltHi: i32): u64 {
  return fold(fold(fold(0x9e3779b97f4a7c15, lora), saltLo), saltHi);
}

export function fold(hash: u64, token: i32): u64 {
  hash = (hash ^ <u64>(<u32>token)) * 0xff51afd7ed558ccd;
  return hash ^ (hash >> 32);
}

/** Returns the final hash of a full block. */
export function seal(hash: u64): u64 {
  hash = (hash ^ (hash >> 29)) * 0xc4ceb9fe1a85ec53;
  hash ^= hash >> 32;
  return hash === 0 ? 1 : hash;
}
