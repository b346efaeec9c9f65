/** What is a tensor? Bytes with a name, a type and a shape, as they stand on the wire: little endian, texts with their length. */

/** Bytes of an element by the protocol's name of its type; 0: each element says how long it is. */
export const ELEMENT_BYTES = {
  BOOL: 1,
  UINT8: 1,
  UINT16: 2,
  UINT32: 4,
  UINT64: 8,
  INT8: 1,
  INT16: 2,
  INT32: 4,
  INT64: 8,
  FP16: 2,
  FP32: 4,
  FP64: 8,
  BYTES: 0,
  BF16: 2,
} as const;
export type Datatype = keyof typeof ELEMENT_BYTES;

export const isDatatype = (text: string): text is Datatype => Object.hasOwn(ELEMENT_BYTES, text);

/** `TYPE_STRING` of a configuration is BYTES in the protocol. */
export function datatypeOf(configured: string): Datatype {
  const name = configured.startsWith("TYPE_") ? configured.slice(5) : configured;
  return name === "STRING" ? "BYTES" : (name as Datatype);
}

export interface Tensor {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly data: Uint8Array;
}

export function elementCount(shape: readonly number[]): number {
  let all = 1;
  for (const size of shape) all *= size;
  return all;
}

/** `[1,-1]`, as messages show a shape. */
export const shapeText = (shape: readonly (number | bigint)[]): string => `[${shape.join(",")}]`;

/**
 * The dimensions as the real server's int64, for errors. Undefined if each is a safe integer, so that the numbers are exact.
 */
export function exactShape(shape: readonly (number | bigint)[]): readonly bigint[] | undefined {
  if (shape.every((size) => Number.isSafeInteger(Number(size)))) return undefined;
  return shape.map((size) => BigInt.asIntN(64, BigInt(size)));
}

interface SizedInput {
  readonly shape: readonly number[];
  readonly exactShape?: readonly bigint[];
  readonly datatype: Datatype;
}

/** The bytes that an input should have, or the elements if it has texts, exact beyond 2^53 too. `batch` counts if `batched`. */
export function expectedSize({ shape, exactShape, datatype }: SizedInput, batched: boolean, batch: number): string {
  const sizes: readonly (number | bigint)[] = exactShape ?? shape;
  const each = (datatype === "BYTES" ? 1 : ELEMENT_BYTES[datatype]) * (batched ? Math.max(1, batch) : 1);
  return (batched ? sizes.slice(1) : sizes).reduce<bigint>((all, size) => all * BigInt(size), BigInt(each)).toString();
}

export const LENGTH_BYTES = 4;
/** Up to here a loop costs less than an expression, or than a call of native code. */
const SHORT = 32;

/** Puts texts together as a tensor holds them; each is a text of bytes, one character each. */
export function packTexts(texts: readonly string[]): Uint8Array {
  let all = 0;
  for (const text of texts) all += textsBytes(text);
  const bytes = Buffer.allocUnsafe(all);
  writeTexts(texts, bytes, 0);
  return bytes;
}

/** Bytes of a text in a tensor. */
export const textsBytes = ({ length }: string): number => LENGTH_BYTES + length;

/** Gives where they end. */
export function writeTexts(texts: readonly string[], bytes: Buffer, from: number): number {
  let at = from;
  for (const text of texts) {
    const { length } = text;
    // Bun's `writeUInt32LE` makes a view of each buffer.
    for (let rest = length, end = at + LENGTH_BYTES; at < end; rest >>>= 8) bytes[at++] = rest;
    if (length > SHORT) at += bytes.write(text, at, "latin1");
    else for (let i = 0; i < length; i++) bytes[at++] = text.charCodeAt(i);
  }
  return at;
}

/** Texts of large tensors that were counted: none of them is cut. */
const counted = new WeakMap<Uint8Array, number>();
const COUNTED_FROM_BYTES = 65_536;

export function noteTexts(data: Uint8Array, count: number): void {
  if (data.length > COUNTED_FROM_BYTES) counted.set(data, count);
}

/** Undefined: nobody has counted them. */
export const countedTexts = (data: Uint8Array): number | undefined =>
  data.length > COUNTED_FROM_BYTES ? counted.get(data) : undefined;

/** Takes them apart again; null: a length points beyond the end. */
export function unpackTexts(data: Uint8Array): string[] | null {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.length);
  const texts: string[] = [];
  for (let at = 0; at < bytes.length; ) {
    if (at + LENGTH_BYTES > bytes.length) return null;
    const end = at + LENGTH_BYTES + bytes.readUInt32LE(at);
    if (end > bytes.length) return null;
    texts.push(bytes.toString("latin1", at + LENGTH_BYTES, end));
    at = end;
  }
  return texts;
}

/** As `unpackTexts`, but the bytes of each text, which stay where they are. */
export function textParts(data: Uint8Array): Uint8Array[] | null {
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  const parts: Uint8Array[] = [];
  for (let at = 0; at < data.length; ) {
    if (at + LENGTH_BYTES > data.length) return null;
    const end = at + LENGTH_BYTES + view.getUint32(at, true);
    if (end > data.length) return null;
    parts.push(data.subarray(at + LENGTH_BYTES, end));
    at = end;
  }
  return parts;
}

/** Reports whether every character is below 0x80. Only such characters take one byte in UTF-8, whose length native code counts. */
export function isAscii(text: string): boolean {
  if (text.length > SHORT) return Buffer.byteLength(text) === text.length;
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) > 127) return false;
  return true;
}
/** Makes a text of bytes, one character each, from a text of characters. */
export const toBytesText = (text: string): string => (isAscii(text) ? text : Buffer.from(text).toString("latin1"));
/** Makes a text of characters from a text of bytes. */
export const fromBytesText = (text: string): string => (isAscii(text) ? text : Buffer.from(text, "latin1").toString());

export type Numbers =
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Float32Array
  | Float64Array;

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

/** Small arrays are copied through this: the memory of such a one has no object of its own, and to make one costs more. */
const SMALL = new ArrayBuffer(256);
const SMALL_BYTES = new Uint8Array(SMALL);
const SMALL_VIEWS = new Map<unknown, Numbers>(Object.values(VIEWS).map((View) => [View, new View(SMALL)]));

/** The elements of all types but BYTES; those of 16 bits in floating point as they stand there. */
export function elementsOf(datatype: Exclude<Datatype, "BYTES">, data: Uint8Array): Numbers {
  const View = VIEWS[datatype];
  const size = ELEMENT_BYTES[datatype];
  if (data.length <= SMALL.byteLength) return smallNumbers(View, data);
  const own = data.byteOffset % size === 0 ? data : new Uint8Array(data);
  return new View(own.buffer as ArrayBuffer, own.byteOffset, Math.floor(own.length / size));
}

/**
 * To be read at once: those of the next call may stand in the same memory. There may be more numbers than elements, which
 * mean nothing.
 */
export function passingElements(datatype: Exclude<Datatype, "BYTES">, data: Uint8Array): Numbers {
  if (data.length > SMALL.byteLength) return elementsOf(datatype, data);
  SMALL_BYTES.set(data);
  return SMALL_VIEWS.get(VIEWS[datatype])!;
}

/** The bytes of a list of numbers. */
export function packNumbers(datatype: "INT32", list: readonly number[]): Uint8Array {
  const bytes = list.length * ELEMENT_BYTES[datatype];
  if (bytes > SMALL.byteLength) {
    const made = newNumbers(datatype, list.length);
    for (let i = 0; i < list.length; i++) made[i] = list[i]!;
    return bytesOf(made);
  }
  const into = SMALL_VIEWS.get(VIEWS[datatype])!;
  for (let i = 0; i < list.length; i++) into[i] = list[i]!;
  return SMALL_BYTES.slice(0, bytes);
}

/** Where so many elements are to be written. */
export function newNumbers(datatype: Exclude<Datatype, "BYTES">, count: number): Numbers {
  if (count * ELEMENT_BYTES[datatype] <= SMALL.byteLength) return new VIEWS[datatype](count);
  // Memory that is asked for by itself is at hand as bytes, too.
  return new VIEWS[datatype](new ArrayBuffer(count * ELEMENT_BYTES[datatype]));
}

/** As they are now: what is written to the numbers later may or may not be seen. */
export function bytesOf(numbers: Numbers): Uint8Array {
  const { length, byteLength } = numbers;
  if (byteLength > SMALL.byteLength) return new Uint8Array(numbers.buffer, numbers.byteOffset, byteLength);
  const into = SMALL_VIEWS.get(numbers.constructor)!;
  for (let i = 0; i < length; i++) into[i] = numbers[i]!;
  return SMALL_BYTES.slice(0, byteLength);
}

function smallNumbers(View: (typeof VIEWS)[keyof typeof VIEWS], data: Uint8Array): Numbers {
  SMALL_BYTES.set(data);
  const from = SMALL_VIEWS.get(View)!;
  const made = new View(Math.floor(data.length / View.BYTES_PER_ELEMENT));
  for (let i = 0; i < made.length; i++) made[i] = from[i]!;
  return made;
}
