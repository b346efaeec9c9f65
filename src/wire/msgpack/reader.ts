/** Reads MessagePack. Texts must be UTF-8. Byte strings and extensions are views of the message, which must stay unchanged. */
import { Extension, FirstByte, Fix, Float32, type MsgpackMap, type MsgpackValue } from "./values.ts";

/** Lists and maps inside each other. A deeper message is refused, because reading is recursive. */
const DEPTH_MOST = 64;
/** Values of a message, for example tokens. */
const VALUES_MOST = 2 ** 22;
/** Lists, maps, texts, byte strings, extensions and 32-bit floats of a message, because one byte may become a whole object. */
const OBJECTS_MOST = 2 ** 18;

/** A message that is not MessagePack, or that exceeds a limit. The message of the error names the offset in bytes. */
export class MsgpackError extends Error {
  override readonly name = "MsgpackError";
}

/**
 * Decodes one value, which must fill the bytes. Throws a `MsgpackError`. `refused`: extension types that may not occur, with the
 * reasons.
 */
export function decodeMsgpack(bytes: Uint8Array, refused: ReadonlyMap<number, string> = new Map()): MsgpackValue {
  const reader = new Reader(bytes, refused);
  const value = reader.value(0);
  if (reader.at < bytes.length) reader.fail(`${bytes.length - reader.at} bytes follow the value`);
  return value;
}

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
/** Texts of at most this many bytes are decoded without a call of the runtime, if they are ASCII. */
const SHORT_TEXT_BYTES = 24;

class Reader {
  /** Offset of the next byte. */
  at = 0;
  readonly #view: DataView;
  #values = 0;
  #objects = 0;

  constructor(
    private readonly bytes: Uint8Array,
    private readonly refused: ReadonlyMap<number, string>,
  ) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  /** Reads a value. `depth`: number of lists and maps around it. */
  value(depth: number): MsgpackValue {
    const first = this.#uint(1);
    if (first < Fix.Map) return first;
    if (first >= Fix.NegativeInt) return first - 256;
    if (first < Fix.Array) return this.#map(first - Fix.Map, depth);
    if (first < Fix.Str) return this.#array(first - Fix.Array, depth);
    if (first < FirstByte.Nil) return this.#text(first - Fix.Str);
    switch (first) {
      case FirstByte.Nil:
        return null;
      case FirstByte.False:
        return false;
      case FirstByte.True:
        return true;
      case FirstByte.Bin8:
      case FirstByte.Bin16:
      case FirstByte.Bin32:
        return this.#part(this.#uint(1 << (first - FirstByte.Bin8)));
      case FirstByte.Ext8:
      case FirstByte.Ext16:
      case FirstByte.Ext32:
        return this.#extension(this.#uint(1 << (first - FirstByte.Ext8)));
      case FirstByte.Float32:
        return this.#object(new Float32(this.#view.getFloat32(this.#take(4))));
      case FirstByte.Float64:
        return this.#view.getFloat64(this.#take(8));
      case FirstByte.Uint8:
      case FirstByte.Uint16:
      case FirstByte.Uint32:
        return this.#uint(1 << (first - FirstByte.Uint8));
      case FirstByte.Uint64:
        return shortest(this.#view.getBigUint64(this.#take(8)));
      case FirstByte.Int8:
        return this.#view.getInt8(this.#take(1));
      case FirstByte.Int16:
        return this.#view.getInt16(this.#take(2));
      case FirstByte.Int32:
        return this.#view.getInt32(this.#take(4));
      case FirstByte.Int64:
        return shortest(this.#view.getBigInt64(this.#take(8)));
      case FirstByte.Str8:
      case FirstByte.Str16:
      case FirstByte.Str32:
        return this.#text(this.#uint(1 << (first - FirstByte.Str8)));
      case FirstByte.Array16:
      case FirstByte.Array32:
        return this.#array(this.#uint(2 << (first - FirstByte.Array16)), depth);
      case FirstByte.Map16:
      case FirstByte.Map32:
        return this.#map(this.#uint(2 << (first - FirstByte.Map16)), depth);
      default:
        if (first >= FirstByte.FixExt1 && first <= FirstByte.FixExt16)
          return this.#extension(1 << (first - FirstByte.FixExt1));
        return this.fail(`no value begins with the byte 0x${first.toString(16)}`, this.at - 1);
    }
  }

  fail(why: string, at = this.at): never {
    throw new MsgpackError(`not MessagePack at byte ${at}: ${why}`);
  }

  /** Takes `length` bytes. Returns their offset. */
  #take(length: number): number {
    const { at } = this;
    if (length > this.bytes.length - at)
      this.fail(`${length} bytes are announced, and ${this.bytes.length - at} are left`);
    this.at = at + length;
    return at;
  }

  #uint(bytes: number): number {
    const at = this.#take(bytes);
    if (bytes === 1) return this.bytes[at]!;
    return bytes === 2 ? this.#view.getUint16(at) : this.#view.getUint32(at);
  }

  #part(length: number): Uint8Array {
    const at = this.#take(length);
    return this.#object(this.bytes.subarray(at, at + length));
  }

  #extension(length: number): Extension {
    const from = this.#take(1);
    const type = this.#view.getInt8(from);
    const why = this.refused.get(type);
    if (why !== undefined) this.fail(`extension type ${type}: ${why}`, from);
    return new Extension(type, this.#part(length));
  }

  #text(length: number): string {
    const from = this.#take(length);
    const end = from + length;
    if (length <= SHORT_TEXT_BYTES) {
      let text = "";
      let at = from;
      for (; at < end && this.bytes[at]! < 128; at++) text += String.fromCharCode(this.bytes[at]!);
      if (at === end) return this.#object(text);
    }
    try {
      return this.#object(UTF8.decode(this.bytes.subarray(from, end)));
    } catch (error) {
      if (error instanceof MsgpackError) throw error;
      return this.fail("a text is not UTF-8", from);
    }
  }

  /** Counts an object. Returns it. */
  #object<T>(made: T): T {
    if (++this.#objects > OBJECTS_MOST) this.fail(`more than ${OBJECTS_MOST} lists, maps, texts and the like`);
    return made;
  }

  /** Checks the depth, and that each of `count` values can have a byte, before memory is allocated for them. */
  #enter(count: number, depth: number): void {
    if (depth === DEPTH_MOST) this.fail(`more than ${DEPTH_MOST} lists and maps inside each other`);
    const left = this.bytes.length - this.at;
    if (count > left) this.fail(`${count} values are announced, and ${left} bytes are left`);
    this.#values += count;
    if (this.#values > VALUES_MOST) this.fail(`more than ${VALUES_MOST} values`);
  }

  #array(length: number, depth: number): MsgpackValue[] {
    this.#enter(length, depth);
    const made = this.#object<MsgpackValue[]>([]);
    for (let left = length; left > 0; left--) made.push(this.value(depth + 1));
    return made;
  }

  #map(size: number, depth: number): MsgpackMap {
    this.#enter(size * 2, depth);
    const made = this.#object(new Map<MsgpackValue, MsgpackValue>());
    for (let left = size; left > 0; left--) {
      const key = this.value(depth + 1);
      made.set(key, this.value(depth + 1));
    }
    return made;
  }
}

/** Returns an integer as a number if it is exact. */
const shortest = (value: bigint): number | bigint => {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
};
