/** Reads single values of protobuf's wire format. Throws `NotProtobuf` on malformed bytes. */

export const Wire = { Varint: 0, Bit64: 1, Bytes: 2, StartGroup: 3, EndGroup: 4, Bit32: 5 } as const;

/** The bytes are not a message of the type. */
export class NotProtobuf extends Error {}

/** Longest field in bytes, as in C++'s `CodedInputStream`. */
const LENGTH_MOST = 2 ** 31 - 1;

export class WireCursor {
  #view: DataView | null = null;
  at = 0;
  /** Low 32 bits of the last varint. */
  low = 0;
  /** High 32 bits of the last varint. */
  high = 0;

  constructor(readonly bytes: Uint8Array) {}

  /** Created for the first floating-point number, because most messages have none. */
  get view(): DataView {
    this.#view ??= new DataView(this.bytes.buffer, this.bytes.byteOffset, this.bytes.length);
    return this.#view;
  }

  /** Reads a varint of up to 64 bits into `low` and `high`. */
  varint(end: number): void {
    const { bytes } = this;
    let at = this.at;
    const first = bytes[at]!;
    if (at < end && first < 128) {
      this.low = first;
      this.high = 0;
      this.at = at + 1;
      return;
    }
    let [low, high] = [0, 0];
    for (let shift = 0; shift < 70; shift += 7) {
      if (at >= end) throw new NotProtobuf();
      const byte = bytes[at++]!;
      const bits = byte & 127;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        high = bits >> 4;
      } else high |= bits << (shift - 32);
      if (byte < 128) {
        this.low = low;
        this.high = high;
        this.at = at;
        return;
      }
    }
    throw new NotProtobuf();
  }

  /** Reads a tag: the field number, with the wire type in the lowest three bits. */
  tag(end: number): number {
    const from = this.at;
    this.varint(end);
    const tag = this.low >>> 0;
    if (this.high !== 0 || this.at - from > 5 || tag < 8 || (tag & 7) > Wire.Bit32) throw new NotProtobuf();
    return tag;
  }

  /** Reads a length. Returns the offset at which that many bytes end. */
  endOfBytes(end: number): number {
    this.varint(end);
    const length = this.low >>> 0;
    if (this.high !== 0 || length > LENGTH_MOST || length > end - this.at) throw new NotProtobuf();
    return this.at + length;
  }

  /** Skips a value that is not a group. */
  skip(wire: number, end: number): void {
    if (wire === Wire.Varint) this.varint(end);
    else if (wire === Wire.Bytes) this.at = this.endOfBytes(end);
    else this.forward(wire === Wire.Bit64 ? 8 : 4, end);
  }

  /** Moves the cursor forward. Returns its offset before. */
  forward(bytes: number, end: number): number {
    const from = this.at;
    if (bytes > end - from) throw new NotProtobuf();
    this.at = from + bytes;
    return from;
  }
}
