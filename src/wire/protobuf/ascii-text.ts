/**
 * Makes short texts of ASCII without a decoder, which takes three times as long. Returns the same string again where it can:
 * names of models, tensors and types are the same in each request, and a comparison leaves no garbage.
 */

const BYTES_MOST = 32;
/** The text that was read last for each hash. */
const recent = new Array<string>(256).fill("");

/** Returns the text from `start` to `to`. Null: it is longer than 32 bytes, or not all of it is ASCII. */
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
