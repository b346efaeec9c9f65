/**
 * Defines the values of MessagePack that JavaScript's own types cannot tell apart. Source: the MessagePack specification
 * (2024), and msgspec 0.22.0, whose bytes our writer repeats.
 */

/** A 32-bit float. Its value is that of the nearest 64-bit float, so that 0.7 reads as 0.699999988079071. */
export class Float32 {
  constructor(readonly value: number) {}

  /** The shortest decimal number with the same 32 bits, for example 0.7. */
  get short(): number {
    for (let digits = 1; digits < 9; digits++) {
      const candidate = Number(this.value.toPrecision(digits));
      if (Object.is(Math.fround(candidate), this.value)) return candidate;
    }
    return this.value;
  }
}

/** A value of an extension type, for example 3: raw bytes of an array of numbers. `data` is a view of the message. */
export class Extension {
  constructor(
    readonly type: number,
    readonly data: Uint8Array,
  ) {}
}

/**
 * A decoded value. Integers beyond 2^53 are bigints. A 64-bit float is a number, even if it is whole. Keys of maps keep their
 * type, so that the key 5 and the key "5" differ.
 */
export type MsgpackValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | Float32
  | Extension
  | readonly MsgpackValue[]
  | MsgpackMap;
export type MsgpackMap = ReadonlyMap<MsgpackValue, MsgpackValue>;

/** First bytes of values whose first byte says nothing else. */
export enum FirstByte {
  Nil = 0xc0,
  False = 0xc2,
  True = 0xc3,
  Bin8 = 0xc4,
  Bin16 = 0xc5,
  Bin32 = 0xc6,
  Ext8 = 0xc7,
  Ext16 = 0xc8,
  Ext32 = 0xc9,
  Float32 = 0xca,
  Float64 = 0xcb,
  Uint8 = 0xcc,
  Uint16 = 0xcd,
  Uint32 = 0xce,
  Uint64 = 0xcf,
  Int8 = 0xd0,
  Int16 = 0xd1,
  Int32 = 0xd2,
  Int64 = 0xd3,
  FixExt1 = 0xd4,
  FixExt16 = 0xd8,
  Str8 = 0xd9,
  Str16 = 0xda,
  Str32 = 0xdb,
  Array16 = 0xdc,
  Array32 = 0xdd,
  Map16 = 0xde,
  Map32 = 0xdf,
}

/** First bytes of ranges that contain a short length, or a small integer. */
export enum Fix {
  Map = 0x80,
  Array = 0x90,
  Str = 0xa0,
  NegativeInt = 0xe0,
}
