/**
 * Reads the numbers of repeated fields, and the texts of `bytes_contents`, into the memory of a tensor: packed in one field,
 * or as a field each.
 */
import type { Pieces } from "../../base/pieces.ts";
import type { MessageRoom } from "./message-room.ts";
import type { ListType, NumberArray, NumberList } from "./number-list.ts";
import type { FieldPlan } from "./plans.ts";
import { NotProtobuf, Wire, type WireCursor } from "./wire.ts";

/** Numbers, or texts, between two stops. */
const NUMBERS_OF_A_PIECE = 4096;
const TEXTS_OF_A_PIECE = 64;
/** Bytes that are copied between two stops. */
const BYTES_OF_A_PIECE = 262_144;
/**
 * Arrays of at most so many numbers, as shapes are, are written number by number. A second array over the memory of a
 * longer one writes numbers of 64 bits faster, but takes a buffer of its own, of about 200 bytes.
 */
const SHORT_LIST = 8;

/** Where numbers are read from, and the room in which their memory counts. */
export interface NumberSource {
  readonly from: WireCursor;
  readonly room: MessageRoom;
}

/**
 * Adds to `list` the numbers of the field whose tag has just been read and begins at `start`, and of the fields with the
 * same tag that follow it. `wire`: its wire type; `own`: that of a number by itself; `end`: where the message ends.
 * Throws `NotProtobuf` or a `MessageRefused`.
 */
export function* readNumbers(
  source: NumberSource,
  list: NumberList,
  start: number,
  { wire, own, end }: { readonly wire: number; readonly own: number; readonly end: number },
): Pieces<void> {
  if (list.type === "bytes") yield* texts(source, list, start, end);
  else if (wire !== Wire.Bytes) yield* run(source, list, start, own, end);
  else if (own !== Wire.Varint) yield* copied(source, list, end);
  else yield* varints(source, list, end);
}

/** Passes over a field of bytes that holds numbers or a text. Throws `NotProtobuf` as `readNumbers`. */
export function checkNumbers(from: WireCursor, { type, wire: own }: FieldPlan, end: number): void {
  const listEnd = from.endOfBytes(end);
  if (type === "bytes") from.at = listEnd;
  else if (own === Wire.Varint) while (from.at < listEnd) from.varint(listEnd);
  else {
    const size = type === "float" ? 4 : 8;
    if ((listEnd - from.at) % size !== 0) throw new NotProtobuf();
    from.at = listEnd;
  }
}

/** Integers that are packed in one field. */
function* varints({ from, room }: NumberSource, list: NumberList, end: number): Pieces<void> {
  const listEnd = from.endOfBytes(end);
  const count = yield* varintsIn(from, listEnd);
  const array = list.withRoom(count, listEnd - from.at, room);
  const words = wordsOf(array);
  for (let left = count; left > 0; left--) {
    from.varint(listEnd);
    put(array, words, list.length++, list.type, from);
    if (left % NUMBERS_OF_A_PIECE === 0) yield;
  }
}

/** Adds the integers from the cursor to `end` to `list`, in one go. Throws `NotProtobuf` or a `MessageRefused`. */
export function readFewIntegers({ from, room }: NumberSource, list: NumberList, end: number): void {
  const { bytes, at } = from;
  let count = 0;
  for (let place = at; place < end; place++) if (bytes[place]! < 128) count++;
  if (end > at && bytes[end - 1]! >= 128) throw new NotProtobuf();
  const array = list.withRoom(count, end - at, room);
  const words = wordsOf(array);
  while (from.at < end) {
    from.varint(end);
    put(array, words, list.length++, list.type, from);
  }
}

/** Counts the varints from the cursor to `end`. */
function* varintsIn({ bytes, at }: WireCursor, end: number): Pieces<number> {
  let count = 0;
  for (let place = at; place < end; place++) {
    if (bytes[place]! < 128) count++;
    if (place % (4 * NUMBERS_OF_A_PIECE) === 0) yield;
  }
  if (end > at && bytes[end - 1]! >= 128) throw new NotProtobuf();
  return count;
}

/** Numbers in floating point that are packed in one field. They stand there as they stand in memory. */
function* copied({ from, room }: NumberSource, list: NumberList, end: number): Pieces<void> {
  const bytes = from.endOfBytes(end) - from.at;
  const size = list.type === "float" ? 4 : 8;
  if (bytes % size !== 0) throw new NotProtobuf();
  const array = list.withRoom(bytes / size, bytes, room) as Float32Array | Float64Array;
  if (array.length <= SHORT_LIST) {
    for (const listEnd = from.at + bytes; from.at < listEnd; ) array[list.length++] = real(list.type, from, listEnd);
    return;
  }
  const memory = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  for (let left = bytes; left > 0; ) {
    const part = Math.min(left, BYTES_OF_A_PIECE);
    memory.set(from.bytes.subarray(from.at, from.at + part), list.length * size);
    from.at += part;
    list.length += part / size;
    left -= part;
    if (left > 0) yield;
  }
}

/** Fields of one number each. */
function* run({ from, room }: NumberSource, list: NumberList, start: number, wire: number, end: number): Pieces<void> {
  const { type } = list;
  const tagBytes = from.at - start;
  const { count, to } = yield* runFrom(from, start, wire, end);
  const array = list.withRoom(count, to - start, room);
  const words = wordsOf(array);
  from.at = start;
  for (let left = count; left > 0; left--) {
    from.at += tagBytes;
    if (wire !== Wire.Varint) (array as Float64Array)[list.length++] = real(type, from, end);
    else {
      from.varint(end);
      put(array, words, list.length++, type, from);
    }
    if (left % NUMBERS_OF_A_PIECE === 0) yield;
  }
}

/** Fields of one text each. In memory each text stands after its length, of four bytes. */
function* texts({ from, room }: NumberSource, list: NumberList, start: number, end: number): Pieces<void> {
  const tagBytes = from.at - start;
  const { count, to, textBytes } = yield* runFrom(from, start, Wire.Bytes, end);
  const into = list.withRoom(textBytes + 4 * count, to - start, room) as Uint8Array;
  const view = new DataView(into.buffer);
  from.at = start;
  for (let left = count; left > 0; left--) {
    from.at += tagBytes;
    const textEnd = from.endOfBytes(end);
    view.setUint32(list.length, textEnd - from.at, true);
    list.length += 4;
    while (from.at < textEnd) {
      const part = from.bytes.subarray(from.at, Math.min(textEnd, from.at + BYTES_OF_A_PIECE));
      into.set(part, list.length);
      list.length += part.length;
      from.at += part.length;
      if (from.at < textEnd) yield;
    }
    if (left % TEXTS_OF_A_PIECE === 0) yield;
  }
}

interface Run {
  readonly count: number;
  /** Where the fields end. */
  readonly to: number;
  /** Bytes of the texts in them. */
  readonly textBytes: number;
}

/** Finds the fields from `start` on that have the same tag, which ends at the cursor. */
function* runFrom(from: WireCursor, start: number, wire: number, end: number): Pieces<Run> {
  const { bytes } = from;
  const tagBytes = from.at - start;
  let textBytes = 0;
  from.at = start;
  for (let count = 0; ; ) {
    for (let byte = 0; byte < tagBytes; byte++)
      if (from.at + byte >= end || bytes[from.at + byte] !== bytes[start + byte])
        return { count, to: from.at, textBytes };
    from.at += tagBytes;
    if (wire === Wire.Bytes) {
      const to = from.endOfBytes(end);
      textBytes += to - from.at;
      from.at = to;
    } else from.skip(wire, end);
    if (++count % NUMBERS_OF_A_PIECE === 0) yield;
  }
}

/** Reads a number in floating point. */
const real = (type: string, from: WireCursor, end: number): number =>
  type === "float"
    ? from.view.getFloat32(from.forward(4, end), true)
    : from.view.getFloat64(from.forward(8, end), true);

/** The last varint as a value of `type`. */
export function integerOf(type: string, { low, high }: WireCursor): boolean | number | bigint {
  if (type === "bool") return low !== 0 || high !== 0;
  if (type === "int32") return low;
  if (type === "uint32") return low >>> 0;
  if (high === 0) return BigInt(low >>> 0);
  const value = (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
  return type === "int64" ? BigInt.asIntN(64, value) : value;
}

/** Words of 32 bits over the memory of a long array, the low word of a number of 64 bits first. Null: the array is short. */
const wordsOf = (array: NumberArray): Int32Array | null =>
  array instanceof Uint8Array || array.length <= SHORT_LIST
    ? null
    : new Int32Array(array.buffer, array.byteOffset, array.byteLength >> 2);

/** Writes the last varint. */
function put(array: NumberArray, words: Int32Array | null, at: number, type: ListType, from: WireCursor): void {
  if (words === null) {
    const value = integerOf(type, from);
    (array as { [at: number]: number | bigint })[at] = typeof value === "boolean" ? Number(value) : value;
  } else if (type === "int32" || type === "uint32") words[at] = from.low;
  else {
    words[2 * at] = from.low;
    words[2 * at + 1] = from.high;
  }
}
