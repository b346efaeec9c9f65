/**
 * Decodes repeated numbers, and the texts of `bytes_contents`, into the memory of a tensor. They may be packed into one field, or
 * be one field each.
 */
import type { Pieces } from "../../base/pieces.ts";
import type { MessageRoom } from "./message-room.ts";
import type { ListType, NumberArray, NumberList } from "./number-list.ts";
import type { FieldPlan } from "./plans.ts";
import { NotProtobuf, Wire, type WireCursor } from "./wire.ts";

/** Numbers, or texts, decoded between two yields. */
const NUMBERS_OF_A_PIECE = 4096;
const TEXTS_OF_A_PIECE = 64;
/** Bytes copied between two yields. */
const BYTES_OF_A_PIECE = 262_144;
/**
 * Longest array to which numbers are written directly, for example a shape. Numbers of 64 bits are written faster through a
 * second array over the same memory, but that takes a buffer object of about 200 bytes.
 */
const SHORT_LIST = 8;

/** The message being decoded, and the room in which its memory counts. */
export interface NumberSource {
  readonly from: WireCursor;
  readonly room: MessageRoom;
}

/**
 * Decodes the field that begins at `start`, and directly following fields with the same tag, into `list`. Its tag has just been
 * read. `wire`: its wire type. `numberWire`: wire type of a single number. `end`: end of the message. Throws `NotProtobuf` or a
 * `MessageRefused`.
 */
export function* readNumbers(
  source: NumberSource,
  list: NumberList,
  start: number,
  { wire, numberWire, end }: { readonly wire: number; readonly numberWire: number; readonly end: number },
): Pieces<void> {
  if (list.type === "bytes") yield* texts(source, list, start, end);
  else if (wire !== Wire.Bytes) yield* run(source, list, start, numberWire, end);
  else if (numberWire !== Wire.Varint) yield* copyReals(source, list, end);
  else yield* varints(source, list, end);
}

/** Skips a field of numbers or texts. Throws `NotProtobuf` where `readNumbers` would. */
export function checkNumbers(from: WireCursor, { type, wire: numberWire }: FieldPlan, end: number): void {
  const listEnd = from.endOfBytes(end);
  if (type === "bytes") from.at = listEnd;
  else if (numberWire === Wire.Varint) while (from.at < listEnd) from.varint(listEnd);
  else {
    const size = type === "float" ? 4 : 8;
    if ((listEnd - from.at) % size !== 0) throw new NotProtobuf();
    from.at = listEnd;
  }
}

/** Decodes packed integers. */
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

/** Decodes the integers from the cursor to `end`, without yields. Throws `NotProtobuf` or a `MessageRefused`. */
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

/** Copies packed floating-point numbers. Their encoding equals their layout in memory. */
function* copyReals({ from, room }: NumberSource, list: NumberList, end: number): Pieces<void> {
  const bytes = from.endOfBytes(end) - from.at;
  const size = list.type === "float" ? 4 : 8;
  if (bytes % size !== 0) throw new NotProtobuf();
  const array = list.withRoom(bytes / size, bytes, room) as Float32Array | Float64Array;
  if (array.length <= SHORT_LIST) {
    for (const listEnd = from.at + bytes; from.at < listEnd; ) array[list.length++] = realOf(list.type, from, listEnd);
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

/** Decodes fields of one number each. */
function* run({ from, room }: NumberSource, list: NumberList, start: number, wire: number, end: number): Pieces<void> {
  const { type } = list;
  const tagBytes = from.at - start;
  const { count, to } = yield* runFrom(from, start, wire, end);
  const array = list.withRoom(count, to - start, room);
  const words = wordsOf(array);
  from.at = start;
  for (let left = count; left > 0; left--) {
    from.at += tagBytes;
    if (wire !== Wire.Varint) (array as Float64Array)[list.length++] = realOf(type, from, end);
    else {
      from.varint(end);
      put(array, words, list.length++, type, from);
    }
    if (left % NUMBERS_OF_A_PIECE === 0) yield;
  }
}

/** Copies fields of one text each. In memory, each text follows its length of four bytes. */
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

/** Consecutive fields with the same tag. */
interface Run {
  readonly count: number;
  /** Offset of the end of the last field. */
  readonly to: number;
  /** Total length of their texts, in bytes. */
  readonly textBytes: number;
}

/** Finds the consecutive fields from `start` that have the same tag, which ends at the cursor. */
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

/** Decodes a floating-point number. */
export const realOf = (type: string, from: WireCursor, end: number): number =>
  type === "float"
    ? from.view.getFloat32(from.forward(4, end), true)
    : from.view.getFloat64(from.forward(8, end), true);

/** Converts the last varint to a value of `type`. */
export function integerOf(type: string, { low, high }: WireCursor): boolean | number | bigint {
  if (type === "bool") return low !== 0 || high !== 0;
  if (type === "int32") return low;
  if (type === "uint32") return low >>> 0;
  if (high === 0) return BigInt(low >>> 0);
  const value = (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
  return type === "int64" ? BigInt.asIntN(64, value) : value;
}

/** Returns the memory of a long array as 32-bit words (low word first), or null for a short array. */
const wordsOf = (array: NumberArray): Int32Array | null =>
  array instanceof Uint8Array || array.length <= SHORT_LIST
    ? null
    : new Int32Array(array.buffer, array.byteOffset, array.byteLength >> 2);

/** Stores the last varint in the array. */
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
