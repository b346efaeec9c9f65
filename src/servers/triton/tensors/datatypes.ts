/**
 * Defines a tensor: a name, a type, a shape and bytes. The bytes are those of the wire format: little endian, and each string
 * after its length.
 */
import type { Pieces } from "../../../base/pieces.ts";

/** Typed array of each type whose elements have the same size. FP16 and BF16 stay raw 16-bit integers. */
const VIEWS = {
  BOOL: Uint8Array,
  UINT8: Uint8Array,
  UINT16: Uint16Array,
  UINT32: Uint32Array,
  UINT64: BigUint64Array,
  INT8: Int8Array,
  INT16: Int16Array,
  INT32: Int32Array,
  INT64: BigInt64Array,
  FP16: Uint16Array,
  FP32: Float32Array,
  FP64: Float64Array,
  BF16: Uint16Array,
} as const;
export type Datatype = keyof typeof VIEWS | "BYTES";
export type Numbers = (typeof VIEWS)[keyof typeof VIEWS]["prototype"];

/** Bytes per element of each type in the protocol. 0: each element contains its own length. */
export const ELEMENT_BYTES = Object.fromEntries([
  ...Object.entries(VIEWS).map(([type, { BYTES_PER_ELEMENT: bytes }]) => [type, bytes]),
  ["BYTES", 0],
]) as Readonly<Record<Datatype, number>>;

export const isDatatype = (text: string): text is Datatype => Object.hasOwn(ELEMENT_BYTES, text);

/** Converts a type of a configuration, such as TYPE_STRING, to the type of the protocol, such as BYTES. */
export function datatypeOf(configured: string): Datatype {
  const known = CONFIGURED.get(configured);
  if (known !== undefined) return known;
  return (configured.startsWith("TYPE_") ? configured.slice(5) : configured) as Datatype;
}
/** Types of the protocol by the type of a configuration. */
const CONFIGURED: ReadonlyMap<string, Datatype> = new Map([
  ...Object.keys(ELEMENT_BYTES).map((type) => [`TYPE_${type}`, type as Datatype] as const),
  ["TYPE_STRING", "BYTES"],
  ["STRING", "BYTES"],
]);

export interface Tensor {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly data: Uint8Array;
}

export function elementCount(shape: readonly number[], from = 0): number {
  let all = 1;
  for (let at = from; at < shape.length; at++) all *= shape[at]!;
  return all;
}

export function areSame(a: readonly number[], b: readonly number[]): boolean {
  if (a.length !== b.length) return false;
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return false;
  return true;
}

/** Prints a shape as `[1,-1]`. */
export const shapeText = (shape: readonly (number | bigint)[]): string => `[${shape.join(",")}]`;

/**
 * Returns the dimensions as exact 64-bit integers, for error messages. Returns undefined if every dimension is a safe integer,
 * so that `shape` itself is exact.
 */
export function exactShape(shape: readonly (number | bigint)[]): readonly bigint[] | undefined {
  if (shape.every((size) => Number.isSafeInteger(Number(size)))) return undefined;
  return shape.map((size) => BigInt.asIntN(64, BigInt(size)));
}

type SizedInput = Omit<Tensor, "name" | "data"> & { readonly exactShape?: readonly bigint[] };

/**
 * Returns the size that an input should have, as exact text: bytes, or for BYTES the number of elements. If `batched`, `batch`
 * replaces the first dimension.
 */
export function expectedSize({ shape, exactShape, datatype }: SizedInput, batched: boolean, batch: number): string {
  const sizes: readonly (number | bigint)[] = exactShape ?? shape;
  const each = (datatype === "BYTES" ? 1 : ELEMENT_BYTES[datatype]) * (batched ? Math.max(1, batch) : 1);
  return (batched ? sizes.slice(1) : sizes).reduce<bigint>((all, size) => all * BigInt(size), BigInt(each)).toString();
}

export const LENGTH_BYTES = 4;
/** For strings up to this length, a loop is faster than a call of native code. */
const SHORT = 32;

/** Reads the length before a string. Bytes behind the end count as 0. A view of the bytes would take longer to create. */
export const lengthAt = (bytes: Uint8Array, at: number): number =>
  (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0;

/** Encodes strings as the data of a BYTES tensor. Each character of a string stands for one byte. */
export function packTexts(texts: readonly string[]): Uint8Array {
  let total = 0;
  for (const { length } of texts) total += LENGTH_BYTES + length;
  const bytes = Buffer.allocUnsafe(total);
  let at = 0;
  for (const text of texts) at = writeText(text, bytes, at);
  return bytes;
}

/** Writes a string after its length at `from`. Returns the end offset. */
export function writeText(text: string, bytes: Buffer, from: number): number {
  const { length } = text;
  let at = from;
  // Bun's `writeUInt32LE` creates a view for every buffer.
  for (let rest = length, end = at + LENGTH_BYTES; at < end; rest >>>= 8) bytes[at++] = rest;
  if (length > SHORT) return at + bytes.write(text, at, "latin1");
  for (let i = 0; i < length; i++) bytes[at++] = text.charCodeAt(i);
  return at;
}

/** Number of strings in large BYTES tensors that were counted before. Such a tensor contains no truncated string. */
const counted = new WeakMap<Uint8Array, number>();
const COUNTED_FROM_BYTES = 65_536;

export function noteTexts(data: Uint8Array, count: number): void {
  if (data.length > COUNTED_FROM_BYTES) counted.set(data, count);
}

/** Returns the number of strings noted for a large tensor, or undefined if it was not counted. */
export const countedTexts = (data: Uint8Array): number | undefined =>
  data.length > COUNTED_FROM_BYTES ? counted.get(data) : undefined;

/** True for a large tensor whose strings were not counted. */
export const needsCount = ({ datatype, data }: Pick<Tensor, "datatype" | "data">): boolean =>
  datatype === "BYTES" && data.length > COUNTED_FROM_BYTES && !counted.has(data);

/**
 * Counts the strings of a large tensor in pieces and notes the number. Notes nothing if a string is truncated, because the later
 * check reports that.
 */
export function* countTexts(data: Uint8Array): Pieces<void> {
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  let count = 0;
  let at = 0;
  while (at + LENGTH_BYTES <= data.length) {
    at += LENGTH_BYTES + view.getUint32(at, true);
    if (++count % 8192 === 0) yield;
  }
  if (at === data.length) noteTexts(data, count);
}

/** Calls `take` with the offsets of each string of a BYTES tensor. Returns false if a length exceeds the data. */
function eachText(data: Uint8Array, take: (from: number, to: number) => void): boolean {
  for (let at = 0; at < data.length; ) {
    const from = at + LENGTH_BYTES;
    at = from + lengthAt(data, at);
    if (at > data.length) return false;
    take(from, at);
  }
  return true;
}

/** Decodes the data of a BYTES tensor. Returns null if a length exceeds the data. */
export function unpackTexts(data: Uint8Array): string[] | null {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.length);
  const texts: string[] = [];
  return eachText(bytes, (from, to) => texts.push(bytes.toString("latin1", from, to))) ? texts : null;
}

/** Does the same as `unpackTexts`, but returns views of the bytes instead of strings. */
export function textParts(data: Uint8Array): Uint8Array[] | null {
  const parts: Uint8Array[] = [];
  return eachText(data, (from, to) => parts.push(data.subarray(from, to))) ? parts : null;
}

/**
 * Reports whether every character is below 0x80. Native code counts long strings: only such characters take one byte in UTF-8.
 */
export function isAscii(text: string): boolean {
  if (text.length > SHORT) return Buffer.byteLength(text) === text.length;
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) > 127) return false;
  return true;
}
/** Encodes text as UTF-8 and returns a string with one character per byte. */
export const toBytesText = (text: string): string => (isAscii(text) ? text : Buffer.from(text).toString("latin1"));
/** Decodes a string with one character per byte as UTF-8. */
export const fromBytesText = (text: string): string => (isAscii(text) ? text : Buffer.from(text, "latin1").toString());

/**
 * Scratch memory for small arrays. Reading `buffer` of a small typed array would make Bun create an `ArrayBuffer` for it, which
 * costs more than a copy.
 */
const SMALL = new ArrayBuffer(256);
const SMALL_BYTES = new Uint8Array(SMALL);
const SMALL_VIEWS = Object.fromEntries(
  Object.entries(VIEWS).map(([type, View]) => [type, new View(SMALL)]),
) as Readonly<Record<keyof typeof VIEWS, Numbers>>;

/** Returns the elements as a typed array. FP16 and BF16 stay raw 16-bit integers. */
export function elementsOf(datatype: Exclude<Datatype, "BYTES">, data: Uint8Array): Numbers {
  const View = VIEWS[datatype];
  const size = ELEMENT_BYTES[datatype];
  if (data.length <= SMALL.byteLength) return smallNumbers(datatype, data);
  const own = data.byteOffset % size === 0 ? data : new Uint8Array(data);
  return new View(own.buffer as ArrayBuffer, own.byteOffset, Math.floor(own.length / size));
}

/**
 * Returns the elements in memory that the next call overwrites, so that the caller must read them at once. The array may be
 * longer than the tensor; the rest is meaningless.
 */
export function passingElements(datatype: Exclude<Datatype, "BYTES">, data: Uint8Array): Numbers {
  if (data.length > SMALL.byteLength) return elementsOf(datatype, data);
  toSmall(data);
  return SMALL_VIEWS[datatype];
}

/** Encodes a list of numbers as tensor data. Types with 64-bit integers take bigints. */
export function packNumbers(datatype: Exclude<Datatype, "BYTES">, list: readonly (number | bigint)[]): Uint8Array {
  return filledBytes(datatype, list.length, (into) => {
    for (let i = 0; i < list.length; i++) into[i] = list[i]!;
  });
}

/**
 * Returns the bytes of `count` elements that `fill` writes. The array that it gets may be longer, and the next call overwrites
 * it.
 */
export function filledBytes(
  datatype: Exclude<Datatype, "BYTES">,
  count: number,
  fill: (into: Numbers) => void,
): Uint8Array {
  const bytes = count * ELEMENT_BYTES[datatype];
  if (bytes <= SMALL.byteLength) {
    fill(SMALL_VIEWS[datatype]);
    return smallBytes(bytes);
  }
  const made = newNumbers(datatype, count);
  fill(made);
  return bytesOf(datatype, made);
}

/** Allocates an array for `count` elements of the type. */
export function newNumbers(datatype: Exclude<Datatype, "BYTES">, count: number): Numbers {
  if (count * ELEMENT_BYTES[datatype] <= SMALL.byteLength) return new VIEWS[datatype](count);
  // An explicit `ArrayBuffer` makes the bytes accessible without a copy.
  return new VIEWS[datatype](new ArrayBuffer(count * ELEMENT_BYTES[datatype]));
}

/** Returns the current bytes of the array. Later writes to the array may or may not change them. */
export function bytesOf(datatype: Exclude<Datatype, "BYTES">, numbers: Numbers): Uint8Array {
  const { length, byteLength } = numbers;
  if (byteLength > SMALL.byteLength) return new Uint8Array(numbers.buffer, numbers.byteOffset, byteLength);
  const into = SMALL_VIEWS[datatype];
  for (let i = 0; i < length; i++) into[i] = numbers[i]!;
  return smallBytes(byteLength);
}

/** Tensors of at most this many bytes are copied byte by byte, because a call of a native method takes longer. */
const FEW_BYTES = 32;

/** Returns a copy of the first bytes of the scratch memory. */
function smallBytes(length: number): Uint8Array {
  if (length > FEW_BYTES) return SMALL_BYTES.slice(0, length);
  const made = new Uint8Array(length);
  for (let at = 0; at < length; at++) made[at] = SMALL_BYTES[at]!;
  return made;
}

/** Copies data to the start of the scratch memory. */
function toSmall(data: Uint8Array): void {
  if (data.length > FEW_BYTES) SMALL_BYTES.set(data);
  else for (let at = 0; at < data.length; at++) SMALL_BYTES[at] = data[at]!;
}

function smallNumbers(datatype: Exclude<Datatype, "BYTES">, data: Uint8Array): Numbers {
  toSmall(data);
  const View = VIEWS[datatype];
  const from = SMALL_VIEWS[datatype];
  const made = new View(Math.floor(data.length / View.BYTES_PER_ELEMENT));
  for (let i = 0; i < made.length; i++) made[i] = from[i]!;
  return made;
}
