/**
 * Writes MessagePack as msgspec 0.22.0 does: integers, lengths and texts in their shortest form. The caller chooses the type of
 * each number, because JavaScript does not tell 1.0 from 1.
 */
import { Extension, FirstByte, Fix, Float32, type MsgpackValue } from "./values.ts";

const FIRST_BYTES = 1024;
/** Texts of at most this many characters are copied without a call of the runtime, if they are ASCII. */
const SHORT_TEXT = 48;
/** Lengths of an extension's data that need no byte for the length. */
const FIXED_LENGTHS = [1, 2, 4, 8, 16];

/** Writes values one after the other into memory that the next message uses again. */
export class MsgpackWriter {
  #bytes = Buffer.allocUnsafeSlow(FIRST_BYTES);
  #length = 0;

  /** Forgets what was written. */
  reset(): void {
    this.#length = 0;
  }

  /** Number of bytes written. */
  get length(): number {
    return this.#length;
  }

  /** Returns a copy of what was written. */
  copy(): Buffer {
    return Buffer.from(this.#bytes.subarray(0, this.#length));
  }

  /** Returns what was written, in memory that later calls overwrite. */
  view(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  nil(): void {
    this.#byte(FirstByte.Nil);
  }

  bool(value: boolean): void {
    this.#byte(value ? FirstByte.True : FirstByte.False);
  }

  /** Writes an integer from -2^63 to 2^64 - 1. Throws a `RangeError` for any other number. */
  int(value: number | bigint): void {
    if (typeof value === "bigint") {
      if (value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER) this.int(Number(value));
      else this.#int64(value);
    } else if (value >= 0 && value < Fix.Map && Number.isInteger(value)) this.#byte(value);
    else if (!Number.isSafeInteger(value)) throw new RangeError(`${value} is not an exact integer`);
    else if (value < 0) this.#negative(value);
    else if (value < 0x100) this.#headed(FirstByte.Uint8, value, 1);
    else if (value < 0x1_0000) this.#headed(FirstByte.Uint16, value, 2);
    else if (value < 0x1_0000_0000) this.#headed(FirstByte.Uint32, value, 4);
    else this.#int64(BigInt(value));
  }

  float64(value: number): void {
    this.#byte(FirstByte.Float64);
    const at = this.#room(8);
    this.#bytes.writeDoubleBE(value, at);
  }

  float32(value: number): void {
    this.#byte(FirstByte.Float32);
    const at = this.#room(4);
    this.#bytes.writeFloatBE(value, at);
  }

  text(value: string): void {
    // A short text is ASCII in most cases, so that its length in bytes is known.
    if (value.length <= SHORT_TEXT && this.#asciiText(value)) return;
    const bytes = Buffer.byteLength(value);
    if (bytes < 32) this.#byte(Fix.Str + bytes);
    else if (bytes < 0x100) this.#headed(FirstByte.Str8, bytes, 1);
    else this.#sized(FirstByte.Str16, bytes);
    const at = this.#room(bytes);
    this.#bytes.write(value, at, bytes, "utf8");
  }

  binary(value: Uint8Array): void {
    if (value.length < 0x100) this.#headed(FirstByte.Bin8, value.length, 1);
    else this.#sized(FirstByte.Bin16, value.length);
    this.raw(value);
  }

  /** Writes a value of an extension type from -128 to 127. */
  extension(type: number, data: Uint8Array): void {
    const power = FIXED_LENGTHS.indexOf(data.length);
    if (power >= 0) this.#byte(FirstByte.FixExt1 + power);
    else if (data.length < 0x100) this.#headed(FirstByte.Ext8, data.length, 1);
    else this.#sized(FirstByte.Ext16, data.length);
    this.#byte(type);
    this.raw(data);
  }

  /** Begins a list. The caller writes its `length` values next. */
  array(length: number): void {
    if (length < 16) this.#byte(Fix.Array + length);
    else this.#sized(FirstByte.Array16, length);
  }

  /**
   * Begins a map. The caller writes `size` keys next, each followed by its value. `most`: number of fields of the struct, if
   * those at their default are left out, because msgspec chooses the form of the head by it.
   */
  map(size: number, most = size): void {
    if (most < 16) this.#byte(Fix.Map + size);
    else this.#sized(FirstByte.Map16, size);
  }

  /** Copies bytes of values that were written before. */
  raw(bytes: Uint8Array): void {
    const at = this.#room(bytes.length);
    this.#bytes.set(bytes, at);
  }

  /** Writes a decoded value. A number that is an integer is written as one, any other as a 64-bit float. */
  value(value: MsgpackValue): void {
    if (value === null) this.nil();
    else if (typeof value === "boolean") this.bool(value);
    else if (typeof value === "string") this.text(value);
    else if (typeof value === "bigint" || Number.isSafeInteger(value)) this.int(value as number | bigint);
    else if (typeof value === "number") this.float64(value);
    else if (value instanceof Float32) this.float32(value.value);
    else if (value instanceof Extension) this.extension(value.type, value.data);
    else if (value instanceof Uint8Array) this.binary(value);
    else if (value instanceof Map) {
      this.map(value.size);
      for (const [key, one] of value as Map<MsgpackValue, MsgpackValue>) {
        this.value(key);
        this.value(one);
      }
    } else {
      const list = value as readonly MsgpackValue[];
      this.array(list.length);
      for (const one of list) this.value(one);
    }
  }

  #negative(value: number): void {
    if (value >= -32) this.#byte(value);
    else if (value >= -0x80) this.#headed(FirstByte.Int8, value, 1);
    else if (value >= -0x8000) this.#headed(FirstByte.Int16, value, 2);
    else if (value >= -0x8000_0000) this.#headed(FirstByte.Int32, value, 4);
    else this.#int64(BigInt(value));
  }

  #int64(value: bigint): void {
    this.#byte(value < 0 ? FirstByte.Int64 : FirstByte.Uint64);
    const at = this.#room(8);
    if (value < 0) this.#bytes.writeBigInt64BE(value, at);
    else this.#bytes.writeBigUInt64BE(value, at);
  }

  /** Writes a short text. Returns false, and writes nothing, if it is not ASCII. */
  #asciiText(value: string): boolean {
    const { length } = value;
    const at = this.#room(length + (length < 32 ? 1 : 2));
    const from = at + (length < 32 ? 1 : 2);
    for (let i = 0; i < length; i++) {
      const code = value.charCodeAt(i);
      if (code >= 128) {
        this.#length = at;
        return false;
      }
      this.#bytes[from + i] = code;
    }
    if (length < 32) this.#bytes[at] = Fix.Str + length;
    else {
      this.#bytes[at] = FirstByte.Str8;
      this.#bytes[at + 1] = length;
    }
    return true;
  }

  /** Writes a length that needs more than the shortest form, in 2 or 4 bytes. `in2`: the first byte for 2 bytes. */
  #sized(in2: FirstByte, length: number): void {
    if (length < 0x1_0000) this.#headed(in2, length, 2);
    else this.#headed(in2 + 1, length, 4);
  }

  /** Writes a first byte, then an integer in some bytes, the highest byte first. */
  #headed(first: FirstByte, value: number, bytes: 1 | 2 | 4): void {
    const at = this.#room(bytes + 1);
    this.#bytes[at] = first;
    for (let i = 1; i <= bytes; i++) this.#bytes[at + i] = value >>> (8 * (bytes - i));
  }

  /** Writes the lowest 8 bits of an integer. */
  #byte(value: number): void {
    // Making room may replace the memory.
    const at = this.#room(1);
    this.#bytes[at] = value;
  }

  /** Makes room for `bytes` bytes. Returns their offset. */
  #room(bytes: number): number {
    const at = this.#length;
    const end = at + bytes;
    if (end > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(end, this.#bytes.length * 2));
      this.#bytes.copy(larger, 0, 0, at);
      this.#bytes = larger;
    }
    this.#length = end;
    return at;
  }
}
