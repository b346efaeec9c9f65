/**
 * Reads messages of protobuf by a table of fields, in pieces, as protobuf's C++ reads it: a field
 * that the table does not have, or that has another wire type, is passed over and not kept.
 */
import type { Pieces } from "../python/pieces.ts";
import type { MessageRoom } from "./message-room.ts";
import { type ListType, type NumberArray, NumberList } from "./number-list.ts";
import { type FieldPlan, type MessagePlan, Plans, type WireField } from "./plans.ts";
import { NotProtobuf, Wire, WireCursor } from "./wire.ts";

/**
 * A message that was read: a field is missing that has no presence of its own and did not come. A map is a `Map`, a list
 * of numbers a `NumberList`, numbers of 64 bits are bigints. Fields of a choice stand under its name: see `Choice`.
 */
export type ReadMessage = Readonly<Record<string, unknown>>;
type Making = Record<string, unknown>;

/** The field of a choice that came last. */
export interface Choice {
  readonly case: string;
  readonly value: unknown;
}

/** Fields or numbers between two stops. */
const FIELDS_OF_A_PIECE = 64;
const NUMBERS_OF_A_PIECE = 4096;
/** Bytes between two stops, where they are copied or become text. */
const BYTES_OF_A_PIECE = 262_144;
/** Fields of longer messages are counted before anything is made of them, so that a refused message leaves no garbage. */
const SCANNED_BYTES = 4096;
/** As protobuf's C++ allows. */
const DEPTH_MOST = 100;

/** Throws `NotProtobuf`, or a `MessageRefused` where it would take more than the room. */
export type ReadsMessages = (type: string, bytes: Uint8Array, room: MessageRoom) => Pieces<ReadMessage>;

/** Reads the messages of a table. */
export function messageReader(messages: ReadonlyMap<string, readonly WireField[]>): ReadsMessages {
  const plans = new Plans(messages);
  return function* (type, bytes, room) {
    const plan = plans.of(type)!;
    if (bytes.length > SCANNED_BYTES) {
      yield* new MessageReader(bytes, room).scan(plan);
      room.free();
    }
    return yield* new MessageReader(bytes, room).message(plan, bytes.length);
  };
}

class MessageReader {
  readonly #from: WireCursor;
  readonly #room: MessageRoom;
  #fields = 0;

  constructor(bytes: Uint8Array, room: MessageRoom) {
    this.#from = new WireCursor(bytes);
    this.#room = room;
  }

  /** Counts all fields in the room. Makes nothing of them. */
  *scan(outermost: MessagePlan): Pieces<void> {
    const from = this.#from;
    const plans = [outermost];
    const ends = [from.bytes.length];
    while (plans.length > 0) {
      const end = ends.at(-1)!;
      if (from.at >= end) {
        plans.pop();
        ends.pop();
        continue;
      }
      if (++this.#fields % FIELDS_OF_A_PIECE === 0) yield;
      const tag = from.tag(end);
      const wire = tag & 7;
      const field = plans.at(-1)!.fields.get(tag >>> 3);
      if (wire === Wire.StartGroup || wire === Wire.EndGroup) yield* this.#skipGroup(tag, end);
      else if (field === undefined || wire !== Wire.Bytes || field.wire !== wire || field.list === "numbers")
        from.skip(wire, end);
      else if (field.message === null) this.#room.text(this.#passed(field.type, end));
      else {
        this.#room.field();
        plans.push(field.message);
        ends.push(from.endOfBytes(end));
      }
    }
  }

  /** Passes over a text and gives its bytes; 0 for bytes, which stay where they are. */
  #passed(type: string, end: number): number {
    const from = this.#from;
    const to = from.endOfBytes(end);
    const bytes = to - from.at;
    from.at = to;
    return type === "string" ? bytes : 0;
  }

  /** What ends there, added to `made`. */
  *message(plan: MessagePlan, end: number, made: Making = {}): Pieces<Making> {
    const from = this.#from;
    while (from.at < end) {
      if (++this.#fields % FIELDS_OF_A_PIECE === 0) yield;
      const start = from.at;
      const tag = from.tag(end);
      const field = plan.fields.get(tag >>> 3);
      const wire = tag & 7;
      if (field === undefined || (wire !== field.wire && !(field.list === "numbers" && wire === Wire.Bytes))) {
        if (wire === Wire.StartGroup || wire === Wire.EndGroup) yield* this.#skipGroup(tag, end);
        else from.skip(wire, end);
      } else if (field.list === "numbers") yield* this.#numbers(field, made, start, wire, end);
      else if (field.message !== null) yield* this.#inner(field, field.message, made, end);
      else if (field.type === "string") {
        const to = from.endOfBytes(end);
        set(made, field, to - from.at > BYTES_OF_A_PIECE ? yield* this.#longText(to) : this.#text(to));
      } else set(made, field, this.#scalar(field.type, end));
    }
    return made;
  }

  *#inner(field: FieldPlan, plan: MessagePlan, made: Making, end: number): Pieces<void> {
    const innerEnd = this.#from.endOfBytes(end);
    this.#room.field();
    if (field.isMap) {
      const { key = "", value = EMPTY } = yield* this.message(plan, innerEnd);
      existing(made, field.name, () => new Map<unknown, unknown>()).set(key, value);
    } else if (field.list !== null) set(made, field, yield* this.message(plan, innerEnd));
    else made[field.name] = yield* this.message(plan, innerEnd, made[field.name] as Making | undefined);
  }

  #scalar(type: string, end: number): unknown {
    const from = this.#from;
    if (type === "bytes") {
      this.#room.view();
      const to = from.endOfBytes(end);
      const bytes = from.bytes.subarray(from.at, to);
      from.at = to;
      return bytes;
    }
    if (type === "double") return from.view.getFloat64(from.forward(8, end), true);
    if (type === "float") return from.view.getFloat32(from.forward(4, end), true);
    from.varint(end);
    return integerOf(type, from);
  }

  #text(to: number): string {
    const from = this.#from;
    this.#room.text(to - from.at);
    const start = from.at;
    from.at = to;
    const ascii = to - start <= ASCII_BYTES ? asciiText(from.bytes, start, to) : null;
    if (ascii !== null) return ascii;
    try {
      return SHORT_TEXTS.decode(from.bytes.subarray(start, to));
    } catch {
      throw new NotProtobuf();
    }
  }

  *#longText(to: number): Pieces<string> {
    const from = this.#from;
    this.#room.text(to - from.at);
    const decoder = new TextDecoder("utf-8", UTF8);
    let text = "";
    while (from.at < to) {
      const end = Math.min(to, from.at + BYTES_OF_A_PIECE);
      try {
        text += decoder.decode(from.bytes.subarray(from.at, end), { stream: end < to });
      } catch {
        throw new NotProtobuf();
      }
      from.at = end;
      yield;
    }
    return text;
  }

  /** Passes over a group, however many others stand in it. */
  *#skipGroup(tag: number, end: number): Pieces<void> {
    const from = this.#from;
    const open: number[] = [];
    for (let next = tag; ; next = from.tag(end)) {
      const wire = next & 7;
      if (wire === Wire.StartGroup) {
        if (open.push(next >>> 3) > DEPTH_MOST) throw new NotProtobuf();
      } else if (wire !== Wire.EndGroup) from.skip(wire, end);
      else if (open.pop() !== next >>> 3) throw new NotProtobuf();
      if (open.length === 0) return;
      if (++this.#fields % FIELDS_OF_A_PIECE === 0) yield;
    }
  }

  /** Numbers of a list: in a row, or a run of fields of one number each, the first of which begins at `start`. */
  *#numbers(
    { name, type, wire: own }: FieldPlan,
    made: Making,
    start: number,
    wire: number,
    end: number,
  ): Pieces<void> {
    const from = this.#from;
    const list = existing(made, name, () => new NumberList(type as ListType));
    if (type === "bytes") yield* this.#packedTexts(list, start, end);
    else if (wire !== Wire.Bytes) yield* this.#run(list, start, own, end);
    else {
      const listEnd = from.endOfBytes(end);
      const bytes = listEnd - from.at;
      if (own !== Wire.Varint) yield* this.#copied(list, bytes);
      else {
        const count = yield* this.#varintsIn(listEnd);
        const into = wordsOf(list.withRoom(count, bytes, this.#room));
        for (let left = count; left > 0; left--) {
          from.varint(listEnd);
          put(into, list.length++, list.type, from);
          if (left % NUMBERS_OF_A_PIECE === 0) yield;
        }
      }
    }
  }

  *#varintsIn(end: number): Pieces<number> {
    const { bytes, at } = this.#from;
    let count = 0;
    for (let place = at; place < end; place++) {
      if (bytes[place]! < 128) count++;
      if (place % (4 * NUMBERS_OF_A_PIECE) === 0) yield;
    }
    if (end > at && bytes[end - 1]! >= 128) throw new NotProtobuf();
    return count;
  }

  /** Numbers in floating point stand in memory as they stand in the message. */
  *#copied(list: NumberList, bytes: number): Pieces<void> {
    const from = this.#from;
    const size = list.type === "float" ? 4 : 8;
    if (bytes % size !== 0) throw new NotProtobuf();
    const into = list.withRoom(bytes / size, bytes, this.#room);
    const memory = new Uint8Array(into.buffer, into.byteOffset, into.byteLength);
    for (let left = bytes; left > 0; ) {
      const part = Math.min(left, BYTES_OF_A_PIECE);
      memory.set(from.bytes.subarray(from.at, from.at + part), list.length * size);
      from.at += part;
      list.length += part / size;
      left -= part;
      if (left > 0) yield;
    }
  }

  *#run(list: NumberList, start: number, wire: number, end: number): Pieces<void> {
    const from = this.#from;
    const { type } = list;
    const tagBytes = from.at - start;
    const { count, to } = yield* this.#runFrom(start, tagBytes, wire, end);
    const into = list.withRoom(count, to - start, this.#room);
    const words = wordsOf(into);
    from.at = start;
    for (let left = count; left > 0; left--) {
      from.at += tagBytes;
      if (type === "float") (into as Float32Array)[list.length++] = from.view.getFloat32(from.forward(4, end), true);
      else if (type === "double")
        (into as Float64Array)[list.length++] = from.view.getFloat64(from.forward(8, end), true);
      else {
        from.varint(end);
        put(words, list.length++, type, from);
      }
      if (left % NUMBERS_OF_A_PIECE === 0) yield;
    }
  }

  *#packedTexts(list: NumberList, start: number, end: number): Pieces<void> {
    const from = this.#from;
    const tagBytes = from.at - start;
    const { count, to } = yield* this.#runFrom(start, tagBytes, Wire.Bytes, end);
    const into = list.withRoom(this.#runBytes + 4 * count, to - start, this.#room) as Uint8Array;
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
      if (left % FIELDS_OF_A_PIECE === 0) yield;
    }
  }

  /** Bytes of the values of the last run, where these are bytes. */
  #runBytes = 0;

  /** How many fields with the same tag follow each other from `start`, and where they end. */
  *#runFrom(start: number, tagBytes: number, wire: number, end: number): Pieces<{ count: number; to: number }> {
    const from = this.#from;
    const { bytes } = from;
    this.#runBytes = 0;
    from.at = start;
    for (let count = 0; ; ) {
      for (let byte = 0; byte < tagBytes; byte++)
        if (from.at + byte >= end || bytes[from.at + byte] !== bytes[start + byte]) return { count, to: from.at };
      from.at += tagBytes;
      if (wire === Wire.Bytes) {
        const to = from.endOfBytes(end);
        this.#runBytes += to - from.at;
        from.at = to;
      } else from.skip(wire, end);
      if (++count % NUMBERS_OF_A_PIECE === 0) yield;
    }
  }
}

const EMPTY: ReadMessage = {};
const UTF8 = { fatal: true, ignoreBOM: true };
/** Texts of so few bytes are made without a decoder, which takes three times as long, if they are ASCII. */
const ASCII_BYTES = 32;
const SHORT_TEXTS = new TextDecoder("utf-8", UTF8);

/** Null: not all of it is ASCII. */
function asciiText(bytes: Uint8Array, start: number, to: number): string | null {
  const codes = new Array<number>(to - start);
  for (let at = start; at < to; at++) {
    const byte = bytes[at]!;
    if (byte > 127) return null;
    codes[at - start] = byte;
  }
  return String.fromCharCode.apply(String, codes);
}

/** The value of the field, which is made if there is none yet. */
function existing<T>(made: Making, name: string, make: () => T): T {
  const found = made[name] as T | undefined;
  if (found !== undefined) return found;
  const value = make();
  made[name] = value;
  return value;
}

function set(made: Making, { name, choice, list }: FieldPlan, value: unknown): void {
  if (choice !== null) made[choice] = { case: name, value } satisfies Choice;
  else if (list === null) made[name] = value;
  else existing(made, name, (): unknown[] => []).push(value);
}

function integerOf(type: string, { low, high }: WireCursor): boolean | number | bigint {
  if (type === "bool") return low !== 0 || high !== 0;
  if (type === "int32") return low;
  if (type === "uint32") return low >>> 0;
  const value = (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
  return type === "int64" ? BigInt.asIntN(64, value) : value;
}

/** Words of 32 bits over the same memory, the low one of a number of 64 bits first. Numbers of one byte are given back. */
const wordsOf = (numbers: NumberArray): Int32Array | Uint8Array =>
  numbers instanceof Uint8Array ? numbers : new Int32Array(numbers.buffer, numbers.byteOffset, numbers.byteLength >> 2);

/** Writes the last varint. */
function put(words: Int32Array | Uint8Array, at: number, type: ListType, { low, high }: WireCursor): void {
  if (type === "bool") words[at] = low !== 0 || high !== 0 ? 1 : 0;
  else if (type === "int32" || type === "uint32") words[at] = low;
  else {
    words[2 * at] = low;
    words[2 * at + 1] = high;
  }
}
