/**
 * Decodes short ASCII texts without a decoder, which would take three times as long. Returns a cached string if the same text
 * was decoded before, because names of models and tensors recur in every request and a comparison allocates nothing.
 */

const BYTES_MOST = 32;
/** The last decoded text by hash. */
const recent = new Array<string>(256).fill("");

/** Decodes the bytes from `start` to `to`. Returns null if they are more than 32, or not all ASCII. */
export function asciiText(bytes: Uint8Array, start: number, to: number): string | null {
  if (to - start > BYTES_MOST) return null;
  let hash = 0;
  for (let at = start; at < to; at++) {
    const byte = bytes[at]!;
    if (byte > 127) return null;
    hash = (Math.imul(hash, 31) + byte) | 0;
  }
  const place = hash & (recent.length - 1);
  const found = recent[place]!;
  if (isText(found, bytes, start, to)) return found;
  const codes = new Array<number>(to - start);
  for (let at = start; at < to; at++) codes[at - start] = bytes[at]!;
  const text = String.fromCharCode.apply(String, codes);
  recent[place] = text;
  return text;
}

function isText(text: string, bytes: Uint8Array, start: number, to: number): boolean {
  if (text.length !== to - start) return false;
  for (let at = start; at < to; at++) if (text.charCodeAt(at - start) !== bytes[at]) return false;
  return true;
}
