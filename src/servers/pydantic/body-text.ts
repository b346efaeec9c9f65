/** Which text do the bytes of a body hold? `json.detect_encoding` of CPython 3.11, then decoding with `surrogatepass`. */

const utf8 = new TextDecoder("utf-8", { fatal: true });
const plainUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A body as text; nearly always both are the same. */
export interface BodyText {
  /** As UTF-8; null: it is none. */
  readonly plain: string | null;
  /** As Python reads it; null: it raises. */
  readonly python: string | null;
  /** There is not a byte of it. */
  readonly empty: boolean;
}

/** Bytes are made text when that is asked for: nobody asks what Python reads of a body that is plain. */
export function asText(body: Uint8Array | BodyText): BodyText {
  return body instanceof Uint8Array ? new BytesAsText(body) : body;
}

class BytesAsText implements BodyText {
  readonly #bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get plain(): string | null {
    try {
      return plainUtf8.decode(this.#bytes);
    } catch {
      return null;
    }
  }

  get python(): string | null {
    return decodeBody(this.#bytes);
  }

  get empty(): boolean {
    return this.#bytes.length === 0;
  }
}

/** Both texts at once, for whoever lets the bytes go. */
export function wholeText(bytes: Uint8Array): BodyText {
  const { plain, empty } = asText(bytes);
  const same = plain !== null && detect(bytes) === "utf-8" && !plain.startsWith("\ufeff");
  return { plain, python: same ? plain : decodeBody(bytes), empty };
}

/** The text without a byte order mark, or null where Python raises UnicodeDecodeError. */
export function decodeBody(bytes: Uint8Array): string | null {
  const encoding = detect(bytes);
  if (encoding === "utf-8") {
    try {
      return utf8.decode(bytes);
    } catch {
      return decodeSurrogates(bytes);
    }
  }
  const wide = encoding.startsWith("utf-32")
    ? decodeUtf32(bytes, encoding === "utf-32le")
    : decodeUtf16(bytes, encoding === "utf-16le");
  return wide?.startsWith("\ufeff") ? wide.slice(1) : wide;
}

function detect(bytes: Uint8Array): "utf-8" | "utf-16le" | "utf-16be" | "utf-32le" | "utf-32be" {
  const [a, b, c, d] = bytes;
  if (a === 0xff && b === 0xfe) return c === 0 && d === 0 ? "utf-32le" : "utf-16le";
  if (a === 0xfe && b === 0xff) return "utf-16be";
  if (a === 0 && b === 0 && c === 0xfe && d === 0xff) return "utf-32be";
  if (bytes.length >= 4) {
    if (a === 0) return b === 0 ? "utf-32be" : "utf-16be";
    if (b === 0) return c === 0 && d === 0 ? "utf-32le" : "utf-16le";
  } else if (bytes.length === 2) {
    if (a === 0) return "utf-16be";
    if (b === 0) return "utf-16le";
  }
  return "utf-8";
}

function decodeUtf16(bytes: Uint8Array, little: boolean): string | null {
  if (bytes.length % 2 !== 0) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let text = "";
  for (let at = 0; at < bytes.length; at += 2) text += String.fromCharCode(view.getUint16(at, little));
  return text;
}

function decodeUtf32(bytes: Uint8Array, little: boolean): string | null {
  if (bytes.length % 4 !== 0) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let text = "";
  for (let at = 0; at < bytes.length; at += 4) {
    const code = view.getUint32(at, little);
    if (code > 0x10ffff) return null;
    text += String.fromCodePoint(code);
  }
  return text;
}

/** UTF-8 in which encoded surrogates (ED A0..BF xx) stand for themselves; null when anything else is wrong. */
function decodeSurrogates(bytes: Uint8Array): string | null {
  let text = "";
  let from = 0;
  for (let at = 0; at + 2 < bytes.length; at++) {
    const second = bytes[at + 1] as number;
    const third = bytes[at + 2] as number;
    if (bytes[at] !== 0xed || second < 0xa0 || second > 0xbf || third < 0x80 || third > 0xbf) continue;
    const before = strict(bytes.subarray(from, at));
    if (before === null) return null;
    text += before + String.fromCharCode(0xd000 | ((second & 0x3f) << 6) | (third & 0x3f));
    at += 2;
    from = at + 1;
  }
  const rest = strict(bytes.subarray(from));
  return rest === null || from === 0 ? null : text + rest;
}

function strict(bytes: Uint8Array): string | null {
  try {
    return utf8.decode(bytes);
  } catch {
    return null;
  }
}
