/** Writes canonical CBOR of tuples as block hashes need them. Source: RFC 8949, and `cbor2.dumps(value, canonical=True)` 6.3.0. */
import type { HashInput } from "./hash-input.ts";

enum Major {
  Unsigned = 0x00,
  Negative = 0x20,
  Bytes = 0x40,
  Text = 0x60,
  Array = 0x80,
}
const NULL = 0xf6;
/** Larger values of a head follow its first byte. */
const INLINE_MOST = 23;

let bytes = Buffer.allocUnsafeSlow(4096);
let length = 0;

/** Returns the encoding in memory that the next call overwrites. */
export function canonicalCbor(value: HashInput): Buffer {
  length = 0;
  save(value);
  return bytes.subarray(0, length);
}

function save(value: HashInput): void {
  if (value === null) {
    room(1);
    bytes[length++] = NULL;
  } else if (typeof value === "number") {
    if (value < 0) head(Major.Negative, -1 - value);
    else head(Major.Unsigned, value);
  } else if (typeof value === "string") saveBlob(Major.Text, Buffer.from(value));
  else if (value instanceof Uint8Array) saveBlob(Major.Bytes, value);
  else {
    head(Major.Array, value.length);
    for (let at = 0; at < value.length; at++) save(value[at]!);
  }
}

function saveBlob(major: Major, value: Uint8Array): void {
  head(major, value.length);
  room(value.length);
  bytes.set(value, length);
  length += value.length;
}

/** Writes a type and an integer below 2^32 in the shortest form. */
function head(major: Major, value: number): void {
  room(5);
  if (value <= INLINE_MOST) bytes[length++] = major | value;
  else if (value < 0x100) {
    bytes[length++] = major | 24;
    bytes[length++] = value;
  } else if (value < 0x1_0000) {
    bytes[length++] = major | 25;
    length = bytes.writeUInt16BE(value, length);
  } else {
    bytes[length++] = major | 26;
    length = bytes.writeUInt32BE(value, length);
  }
}

function room(more: number): void {
  if (length + more <= bytes.length) return;
  const larger = Buffer.allocUnsafeSlow(2 * (length + more));
  larger.set(bytes.subarray(0, length));
  bytes = larger;
}
