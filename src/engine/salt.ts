/** Converts a cache salt to 64 bits that enter the block hashes. "" means no salt (0, 0). */
export function saltWords(salt: string): { readonly lo: number; readonly hi: number } {
  if (salt === "") return { lo: 0, hi: 0 };
  let lo = 0x811c9dc5;
  let hi = 0x1b873593;
  for (let i = 0; i < salt.length; i++) {
    const unit = salt.charCodeAt(i);
    lo = Math.imul(lo ^ unit, 0x01000193);
    hi = Math.imul(hi ^ unit, 0x85ebca6b) ^ (hi >>> 13);
  }
  return { lo: lo | 0, hi: hi | 0 };
}
