/** Encodes and decodes header fields: HPACK, RFC 7541. Decoding supports the dynamic table; encoding does not use it. */
import { ConnectionError, Http2Code } from "./frames.ts";
import { huffmanText } from "./huffman.ts";

/** Name and value, with one character per byte. */
export type HeaderField = readonly [string, string];

/** The static table of appendix A. Its indexes start at 1. */
const STATIC: readonly HeaderField[] = (
  ":authority|:method GET|:method POST|:path /|:path /index.html|:scheme http|:scheme https|:status 200|:status 204|" +
  ":status 206|:status 304|:status 400|:status 404|:status 500|accept-charset|accept-encoding gzip, deflate|" +
  "accept-language|accept-ranges|accept|access-control-allow-origin|age|allow|authorization|cache-control|" +
  "content-disposition|content-encoding|content-language|content-length|content-location|content-range|content-type|" +
  "cookie|date|etag|expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|" +
  "last-modified|link|location|max-forwards|proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after|" +
  "server|set-cookie|strict-transport-security|transfer-encoding|user-agent|vary|via|www-authenticate"
)
  .split("|")
  .map((line) => {
    const blank = line.indexOf(" ");
    return blank < 0 ? [line, ""] : [line.slice(0, blank), line.slice(blank + 1)];
  });

/** Size of a table entry in addition to its characters, in bytes. */
const FIELD_BYTES = 32;
/** Largest dynamic table that a client may use, in bytes. The protocol's default. */
const TABLE_BYTES = 4096;

/**
 * Largest decoded size of one block. Without the limit, repeated references to a table entry would make a huge list from few
 * bytes.
 */
const LIST_BYTES_MOST = 262_144;

const broken = (why: string) => new ConnectionError(Http2Code.Compression, why);
/** Returns the size of a field in a table, in bytes. Destructuring the pair would iterate over it. */
export const fieldBytes = (field: HeaderField): number => field[0].length + field[1].length + FIELD_BYTES;

export class HpackDecoder {
  /** Entries, the newest first. */
  readonly #table: HeaderField[] = [];
  #bytes = 0;
  #most = TABLE_BYTES;
  #block: Uint8Array = new Uint8Array();
  #at = 0;
  /** Size of the fields decoded last, in bytes, counted like table entries. */
  listBytes = 0;

  /** Decodes the fields of a block. Throws a `ConnectionError`; the decoder is unusable afterwards. */
  decode(block: Uint8Array): HeaderField[] {
    this.#block = block;
    this.#at = 0;
    this.listBytes = 0;
    const fields: HeaderField[] = [];
    while (this.#at < block.length) {
      const byte = block[this.#at]!;
      if (byte & 0x80) this.#take(this.#entry(this.#number(7)), fields);
      else if ((byte & 0xe0) === 0x20) {
        if (fields.length > 0) throw broken("table size update after a field, must be first in its block");
        const most = this.#number(5);
        if (most > TABLE_BYTES) throw broken(`table size is ${most}, must be ${TABLE_BYTES} or less`);
        this.#most = most;
        this.#shrink(0);
      } else if (byte & 0x40) {
        const field = this.#literal(6);
        this.#add(field);
        this.#take(field, fields);
      } else this.#take(this.#literal(4), fields);
    }
    return fields;
  }

  #take(field: HeaderField, into: HeaderField[]): void {
    this.listBytes += fieldBytes(field);
    if (this.listBytes > LIST_BYTES_MOST)
      throw new ConnectionError(Http2Code.Calm, `headers exceed ${LIST_BYTES_MOST} bytes`);
    into.push(field);
  }

  #entry(index: number): HeaderField {
    const found = index <= STATIC.length ? STATIC[index - 1] : this.#table[index - STATIC.length - 1];
    if (found === undefined) throw broken(`index ${index} is not in the table`);
    return found;
  }

  #literal(bits: number): HeaderField {
    const index = this.#number(bits);
    const name = index === 0 ? this.#string() : this.#entry(index)[0];
    return [name, this.#string()];
  }

  #add(field: HeaderField): void {
    const bytes = fieldBytes(field);
    this.#shrink(bytes);
    if (bytes > this.#most) return;
    this.#table.unshift(field);
    this.#bytes += bytes;
  }

  #shrink(needed: number): void {
    while (this.#bytes + needed > this.#most && this.#table.length > 0) this.#bytes -= fieldBytes(this.#table.pop()!);
  }

  #number(bits: number): number {
    const mask = 2 ** bits - 1;
    let value = this.#byte() & mask;
    if (value < mask) return value;
    for (let shift = 0; ; shift += 7) {
      const byte = this.#byte();
      value += (byte & 0x7f) * 2 ** shift;
      if (shift > 21) throw broken("integer has more than 5 bytes");
      if (byte < 0x80) return value;
    }
  }

  #string(): string {
    const isCoded = (this.#block[this.#at] ?? 0) & 0x80;
    const length = this.#number(7);
    const from = this.#at;
    const to = from + length;
    if (to > this.#block.length) throw broken("string is longer than its block");
    this.#at = to;
    if (!isCoded) return Buffer.from(this.#block.buffer, this.#block.byteOffset + from, length).toString("latin1");
    const text = huffmanText(this.#block, from, to);
    if (text === null) throw broken("string is not a valid Huffman code");
    return text;
  }

  #byte(): number {
    const byte = this.#block[this.#at++];
    if (byte === undefined) throw broken("block ends within a field");
    return byte;
  }
}

/** Encodes fields as literals that are not added to the dynamic table. Values may contain any bytes. */
export function encodeFields(fields: readonly HeaderField[]): Buffer {
  return Buffer.concat(
    fields.map(([name, value]) => {
      const known = STATIC.findIndex(
        ([knownName, knownValue]) => knownName === name && knownValue === value && value !== "",
      );
      if (known >= 0) return Buffer.from([0x80 | (known + 1)]);
      return Buffer.concat([Buffer.from([0]), encodeText(name), encodeText(value)]);
    }),
  );
}

function encodeText(text: string): Buffer {
  const head: number[] = [];
  if (text.length < 0x7f) head.push(text.length);
  else {
    head.push(0x7f);
    let rest = text.length - 0x7f;
    for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) head.push(0x80 | (rest % 0x80));
    head.push(rest);
  }
  return Buffer.concat([Buffer.from(head), Buffer.from(text, "latin1")]);
}
