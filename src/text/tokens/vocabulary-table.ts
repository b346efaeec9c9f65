/**
 * Packs a vocabulary into one file that is loaded without parsing, as views.
 *
 * The file has seven little-endian words (magic, version, size, eosId, maxTokenBytes, patternBytes, tokenBytes), then
 * `offsets` u32[size + 1], `flags` u8[size], the split pattern in UTF-8, and the bytes of all tokens.
 */

const MAGIC = 0x4f564e55; // "UNVO"
const VERSION = 1;
const HEADER_WORDS = 7;

/** Flag of a special token, which plain text never becomes. */
export const SPECIAL = 1;
/** Flag of a token whose bytes are complete code points, of which the last is not U+FFFD. */
export const COMPLETE = 2;

/** The content of a packed file. */
export interface VocabularyTable {
  readonly size: number;
  readonly eosId: number;
  readonly maxTokenBytes: number;
  /** Source of the regular expression (flag `u`) that splits text into pieces for merging. "" if unknown. */
  readonly splitPattern: string;
  /** Token i is bytes[offsets[i]] to bytes[offsets[i + 1] - 1]. */
  readonly offsets: Uint32Array;
  readonly flags: Uint8Array;
  readonly bytes: Uint8Array;
}

/** Returns views of a packed file. Throws if it is another file or was truncated. */
export function readTable(file: Uint8Array): VocabularyTable {
  const at = file.byteOffset % 4 === 0 ? file : file.slice();
  if (at.byteLength < HEADER_WORDS * 4) throw new Error("not a vocabulary file: too short");
  const [magic, version, size, eosId, maxTokenBytes, patternBytes, tokenBytes] = new Uint32Array(
    at.buffer,
    at.byteOffset,
    HEADER_WORDS,
  ) as unknown as [number, number, number, number, number, number, number];
  if (magic !== MAGIC || version !== VERSION) throw new Error("not a vocabulary file of this version: bun run build");
  const offsetsAt = HEADER_WORDS * 4;
  const flagsAt = offsetsAt + (size + 1) * 4;
  const patternAt = flagsAt + size;
  const bytesAt = patternAt + patternBytes;
  if (at.byteLength !== bytesAt + tokenBytes) throw new Error("vocabulary file was cut off: bun run build");
  return {
    size,
    eosId,
    maxTokenBytes,
    splitPattern: new TextDecoder().decode(at.subarray(patternAt, bytesAt)),
    offsets: new Uint32Array(at.buffer, at.byteOffset + offsetsAt, size + 1),
    flags: at.subarray(flagsAt, patternAt),
    bytes: at.subarray(bytesAt),
  };
}

/** Returns the packed file of these tokens. An empty array is an unused ID. */
export function packTable(
  tokens: readonly Uint8Array[],
  specials: ReadonlySet<number>,
  eosId: number,
  splitPattern: string,
): Uint8Array<ArrayBuffer> {
  const pattern = new TextEncoder().encode(splitPattern);
  const tokenBytes = tokens.reduce((sum, token) => sum + token.length, 0);
  const size = tokens.length;
  const offsetsAt = HEADER_WORDS * 4;
  const patternAt = offsetsAt + (size + 1) * 4 + size;
  const file = new Uint8Array(patternAt + pattern.length + tokenBytes);
  const maxTokenBytes = tokens.reduce((most, token) => Math.max(most, token.length), 0);
  const header = [MAGIC, VERSION, size, eosId, maxTokenBytes, pattern.length, tokenBytes];
  new Uint32Array(file.buffer, 0, HEADER_WORDS).set(header);
  file.set(pattern, patternAt);
  const offsets = new Uint32Array(file.buffer, offsetsAt, size + 1);
  const flags = file.subarray(patternAt - size, patternAt);
  const bytes = file.subarray(patternAt + pattern.length);
  let at = 0;
  tokens.forEach((token, id) => {
    bytes.set(token, at);
    at += token.length;
    offsets[id + 1] = at;
    flags[id] = (specials.has(id) ? SPECIAL : 0) | (isComplete(token) ? COMPLETE : 0);
  });
  return file;
}

function isComplete(token: Uint8Array): boolean {
  try {
    return !new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(token).endsWith("\ufffd");
  } catch {
    return false;
  }
}
