/**
 * Writes Python's pickle, protocol 5, of tuples as block hashes need them. Source: CPython 3.11 `Modules/_pickle.c`. Every text
 * and tuple is written whole, as Python does with objects that it meets once.
 */
import type { HashInput } from "./hash-input.ts";

enum Op {
  Mark = 0x28,
  Stop = 0x2e,
  BinBytes = 0x42,
  ShortBinBytes = 0x43,
  BinInt = 0x4a,
  BinInt1 = 0x4b,
  BinInt2 = 0x4d,
  None = 0x4e,
  BinUnicode = 0x58,
  EmptyTuple = 0x29,
  Tuple = 0x74,
  /** A tuple of one. Those of two and three have the next codes. */
  Tuple1 = 0x85,
  Proto = 0x80,
  ShortBinUnicode = 0x8c,
  Memoize = 0x94,
  Frame = 0x95,
}

const PROTOCOL = 5;
/** A frame ends after the object that makes it this long. Longer texts and byte strings are outside of frames. */
const FRAME_BYTES = 65_536;
const FRAME_HEAD_BYTES = 9;
/** A shorter frame has no head. */
const FRAME_BYTES_LEAST = 4;
const SHORT_MOST = 255;

/** Bytes of the last pickle. The next call overwrites them. */
let bytes = Buffer.allocUnsafeSlow(4096);
let length = 0;
/** Offset of the open frame's head, or -1. */
let frameAt = -1;

/** Returns the pickle in memory that the next call overwrites. */
export function pickled(value: HashInput): Buffer {
  length = 0;
  frameAt = -1;
  push(Op.Proto);
  push(PROTOCOL);
  save(value);
  code(Op.Stop);
  endFrame();
  return bytes.subarray(0, length);
}

function save(value: HashInput): void {
  if (length - frameAt - FRAME_HEAD_BYTES >= FRAME_BYTES) endFrame();
  if (value === null) code(Op.None);
  else if (typeof value === "number") saveInt(value);
  else if (typeof value === "string") saveBlob(Buffer.from(value), Op.ShortBinUnicode, Op.BinUnicode);
  else if (value instanceof Uint8Array) saveBlob(value, Op.ShortBinBytes, Op.BinBytes);
  else saveTuple(value);
}

/** Writes an integer of 32 bits. */
function saveInt(value: number): void {
  if (value >= 0 && value < 0x100) {
    code(Op.BinInt1);
    push(value);
  } else if (value >= 0 && value < 0x1_0000) {
    code(Op.BinInt2);
    room(2);
    length = bytes.writeUInt16LE(value, length);
  } else {
    code(Op.BinInt);
    room(4);
    length = bytes.writeInt32LE(value, length);
  }
}

function saveBlob(value: Uint8Array, short: Op, long: Op): void {
  const isLarge = value.length >= FRAME_BYTES;
  if (isLarge) {
    endFrame();
    push(long);
  } else code(value.length <= SHORT_MOST ? short : long);
  if (value.length <= SHORT_MOST) push(value.length);
  else {
    room(4);
    length = bytes.writeUInt32LE(value.length, length);
  }
  room(value.length);
  bytes.set(value, length);
  length += value.length;
  code(Op.Memoize);
}

function saveTuple(values: ArrayLike<HashInput>): void {
  if (values.length === 0) {
    code(Op.EmptyTuple);
    return;
  }
  if (values.length > 3) code(Op.Mark);
  for (let at = 0; at < values.length; at++) save(values[at]!);
  code(values.length > 3 ? Op.Tuple : Op.Tuple1 + values.length - 1);
  code(Op.Memoize);
}

/** Writes the code of an operation, which opens a frame if none is open. */
function code(op: Op): void {
  if (frameAt < 0) {
    room(FRAME_HEAD_BYTES);
    frameAt = length;
    length += FRAME_HEAD_BYTES;
  }
  push(op);
}

function endFrame(): void {
  if (frameAt < 0) return;
  const from = frameAt + FRAME_HEAD_BYTES;
  if (length - from < FRAME_BYTES_LEAST) {
    bytes.copyWithin(frameAt, from, length);
    length -= FRAME_HEAD_BYTES;
  } else {
    bytes[frameAt] = Op.Frame;
    bytes.writeUInt32LE(length - from, frameAt + 1);
    bytes.writeUInt32LE(0, frameAt + 5);
  }
  frameAt = -1;
}

function push(byte: number): void {
  room(1);
  bytes[length++] = byte;
}

function room(more: number): void {
  if (length + more <= bytes.length) return;
  const larger = Buffer.allocUnsafeSlow(2 * (length + more));
  larger.set(bytes.subarray(0, length));
  bytes = larger;
}
