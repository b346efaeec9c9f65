/**
 * Stores the numbers of a repeated field, or the texts of `bytes_contents`, in the memory layout of a tensor, without an object
 * per element.
 */
import type { MessageRoom } from "./message-room.ts";

const ARRAYS = {
  bool: Uint8Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  float: Float32Array,
  double: Float64Array,
  /** Elements of BYTES. Each follows its length of four bytes. */
  bytes: Uint8Array,
} as const;
export type ListType = keyof typeof ARRAYS;
export type NumberArray = (typeof ARRAYS)[ListType]["prototype"];
export const isListType = (type: string): type is ListType => type in ARRAYS;

/** Empty arrays by type. Nothing is written to them. */
const EMPTY = Object.fromEntries(Object.entries(ARRAYS).map(([type, Numbers]) => [type, new Numbers()])) as Readonly<
  Record<ListType, NumberArray>
>;

export class NumberList {
  length = 0;
  #array: NumberArray;

  constructor(readonly type: ListType) {
    this.#array = EMPTY[type];
  }

  /** The numbers. For texts, their bytes with lengths. */
  get numbers(): NumberArray {
    // A subarray would get a buffer object of its own, of about 200 bytes.
    return this.length === this.#array.length ? this.#array : this.#array.subarray(0, this.length);
  }

  /**
   * Makes room for `more` numbers, which take `wireBytes` bytes in the message. Returns the array to write to. Throws a
   * `MessageRefused`.
   */
  withRoom(more: number, wireBytes: number, room: MessageRoom): NumberArray {
    const needed = this.length + more;
    const before = this.#array;
    if (needed <= before.length) room.list(0, wireBytes);
    else {
      const length = Math.max(needed, Math.ceil(1.5 * before.length));
      room.list(length * before.BYTES_PER_ELEMENT, wireBytes);
      this.#array = new ARRAYS[this.type](length);
      (this.#array as Uint8Array).set(before as Uint8Array);
    }
    return this.#array;
  }
}
