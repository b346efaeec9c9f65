/**
 * Decodes protobuf messages by a table of fields, in slices. Like protobuf's C++ library, it skips fields that the table does not
 * have or that have another wire type. Unlike it, it does not keep them.
 */
import { isUtf8 } from "node:buffer";
import { atOnce, type Pieces } from "../../base/pieces.ts";
import { HeldMessages } from "../grpc/held-messages.ts";
import { asciiText } from "./ascii-text.ts";
import { addEntry, LateList, LateMap } from "./late-fields.ts";
import { MessageRoom, ObjectBytes } from "./message-room.ts";
import { type ListType, NumberList } from "./number-list.ts";
import { checkNumbers, integerOf, type NumberSource, readFewIntegers, readNumbers, realOf } from "./number-reader.ts";
import { type FieldPlan, type MessagePlan, Plans, type WireField } from "./plans.ts";
import { NotProtobuf, Wire, WireCursor } from "./wire.ts";

/**
 * A decoded message. Unset fields without presence are missing. A map is a `Map` or a `LateMap`; repeated messages or bytes are
 * an array or a `LateList`; repeated numbers are a `NumberList`. Numbers of 64 bits are bigints. A field of a oneof is stored
 * under the name of the oneof, as a `Choice`.
 */
export type ReadMessage = Readonly<Record<string, unknown>>;
type PartialMessage = Record<string, unknown>;

/** The field of a oneof that was sent last. */
export interface Choice {
  readonly case: string;
  readonly value: unknown;
}

/** Number of fields decoded between two yields. */
const FIELDS_OF_A_PIECE = 64;
/** Bytes copied or decoded as text between two yields. */
const BYTES_OF_A_PIECE = 262_144;
/** Size of messages whose fields are counted before they are decoded, so that a refused message leaves no garbage. */
const SCANNED_BYTES = 4096;
/**
 * Size up to which an inner message is decoded without yields. Such elements of repeated fields and maps stay encoded if the
 * objects of others have already used up their share (`MessageRoom.isFull`). Objects of longer elements take only a few times
 * their bytes.
 */
const SHORT_BYTES = 512;
/** Deepest nesting of groups, as in protobuf's C++ library. */
const DEPTH_MOST = 100;

/** Decodes a message of a type. Throws `NotProtobuf`, or a `MessageRefused` if the message would exceed the room. */
export type MessageDecoder = (type: string, bytes: Uint8Array, room: MessageRoom) => Pieces<ReadMessage>;

/** Returns the decoder for the messages of a table. */
export function messageReader(messages: ReadonlyMap<string, readonly WireField[]>): MessageDecoder {
  const plans = new Plans(messages);
  return function* (type, bytes, room) {
    const plan = plans.of(type)!;
    if (bytes.length > SCANNED_BYTES) {
      yield* new MessageReader(bytes, room).scan(plan);
      room.free();
    }
    room.begin(bytes.length);
    const reader = new MessageReader(bytes, room);
    const isShort = bytes.length <= SHORT_BYTES;
    const message = isShort ? reader.short(plan, bytes.length) : yield* reader.message(plan, bytes.length);
    // Later accesses to late elements are not counted again.
    reader.room = UNCOUNTED;
    return message;
  };
}

class MessageReader implements NumberSource {
  readonly from: WireCursor;
  room: MessageRoom;
  #fields = 0;

  constructor(bytes: Uint8Array, room: MessageRoom) {
    this.from = new WireCursor(bytes);
    this.room = room;
  }

  /** Counts all fields in the room, without decoding them. */
  *scan(outermost: MessagePlan): Pieces<void> {
    const from = this.from;
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
      else if (field.message === null) {
        const to = from.endOfBytes(end);
        // Bytes need no room, because they are not copied.
        this.room.text(field.type === "string" ? to - from.at : 0);
        from.at = to;
      } else {
        this.room.field();
        plans.push(field.message);
        ends.push(from.endOfBytes(end));
      }
    }
  }

  /** Decodes the fields up to `end` into `message`. */
  *message(plan: MessagePlan, end: number, message = this.#object()): Pieces<PartialMessage> {
    const from = this.from;
    while (from.at < end) {
      if (++this.#fields % FIELDS_OF_A_PIECE === 0) yield;
      const start = from.at;
      if (!this.#shortField(plan, message, end)) yield* this.#longField(plan, message, start, end);
    }
    return message;
  }

  /** Like `message`, without yields. Avoids a generator, which takes more memory than most fields. */
  short(plan: MessagePlan, end: number, message = this.#object()): PartialMessage {
    const from = this.from;
    while (from.at < end) {
      const start = from.at;
      if (!this.#shortField(plan, message, end)) atOnce(this.#longField(plan, message, start, end));
    }
    return message;
  }

  /**
   * Decodes the next field. Returns false, with an undefined cursor position, if the field is rare or must be decoded in slices.
   */
  #shortField(plan: MessagePlan, message: PartialMessage, end: number): boolean {
    const from = this.from;
    const tag = from.tag(end);
    const field = plan.fields.get(tag >>> 3);
    const wire = tag & 7;
    if (field === undefined || (wire !== field.wire && !(field.list === "numbers" && wire === Wire.Bytes))) {
      if (wire === Wire.StartGroup || wire === Wire.EndGroup) return false;
      from.skip(wire, end);
    } else if (field.list === "numbers") {
      const to = wire === Wire.Bytes && field.wire === Wire.Varint ? from.endOfBytes(end) : end;
      if (wire !== Wire.Bytes || field.wire !== Wire.Varint || to - from.at > SHORT_BYTES) return false;
      readFewIntegers(this, this.#numbers(field, message), to);
    } else if (field.message !== null) return this.#shortInner(field, field.message, message, end);
    else if (field.type === "string") {
      const to = from.endOfBytes(end);
      if (to - from.at > BYTES_OF_A_PIECE) return false;
      set(message, field, this.#text(to));
    } else if (field.type === "bytes") this.#bytes(field, message, end);
    else {
      if (field.choice !== null) this.room.take(ObjectBytes.Choice);
      set(message, field, this.#scalar(field.type, end));
    }
    return true;
  }

  /** Decodes the field at `start` in slices. */
  *#longField(plan: MessagePlan, message: PartialMessage, start: number, end: number): Pieces<void> {
    const from = this.from;
    from.at = start;
    const tag = from.tag(end);
    const wire = tag & 7;
    if (wire === Wire.StartGroup || wire === Wire.EndGroup) {
      yield* this.#skipGroup(tag, end);
      return;
    }
    const field = plan.fields.get(tag >>> 3)!;
    if (field.list === "numbers") {
      yield* readNumbers(this, this.#numbers(field, message), start, { wire, numberWire: field.wire, end });
      return;
    }
    const to = from.endOfBytes(end);
    if (field.message === null) set(message, field, yield* this.#longText(to));
    else {
      this.room.field();
      if (isSingle(field))
        message[field.name] = yield* this.message(field.message, to, message[field.name] as PartialMessage | undefined);
      else this.#addElement(field, message, yield* this.message(field.message, to));
    }
  }

  /** Decodes an inner message or an entry of a map. Returns false if it is long. */
  #shortInner(field: FieldPlan, plan: MessagePlan, message: PartialMessage, end: number): boolean {
    const from = this.from;
    const start = from.at;
    const to = from.endOfBytes(end);
    if (to - start > SHORT_BYTES) return false;
    this.room.field();
    if (isSingle(field)) message[field.name] = this.short(plan, to, message[field.name] as PartialMessage | undefined);
    else if (this.room.isFull) {
      this.#check(plan, to);
      this.#lateList(field, plan, message).pushLate(start);
    } else this.#addElement(field, message, to === from.at ? this.#empty() : this.short(plan, to));
    return true;
  }

  /** Returns the element without fields. It is always the same object, because elements are never changed. */
  #empty(): ReadMessage {
    this.room.take(ObjectBytes.Place);
    return EMPTY;
  }

  #object(): PartialMessage {
    this.room.take(ObjectBytes.Message);
    return {};
  }

  /** Skips a short message that will be decoded later. Counts its fields, and throws the errors that decoding would throw. */
  #check(plan: MessagePlan, end: number): void {
    const from = this.from;
    while (from.at < end) {
      const tag = from.tag(end);
      const field = plan.fields.get(tag >>> 3);
      const wire = tag & 7;
      if (wire === Wire.StartGroup || wire === Wire.EndGroup) atOnce(this.#skipGroup(tag, end));
      else if (field === undefined || wire !== Wire.Bytes) from.skip(wire, end);
      else if (field.list === "numbers") checkNumbers(from, field, end);
      else if (field.wire !== wire) from.skip(wire, end);
      else if (field.message !== null) {
        this.room.field();
        this.#check(field.message, from.endOfBytes(end));
      } else if (field.type === "string") {
        const to = from.endOfBytes(end);
        this.room.text(to - from.at);
        if (!isUtf8(from.bytes.subarray(from.at, to))) throw new NotProtobuf();
        from.at = to;
      } else {
        this.room.view();
        from.skip(wire, end);
      }
    }
  }

  #addElement(field: FieldPlan, message: PartialMessage, element: ReadMessage): void {
    const { name, isMap } = field;
    const map = message[name];
    if (!isMap) set(message, field, element);
    else if (map instanceof LateMap) map.late.push(element);
    else {
      this.room.take(map === undefined ? ObjectBytes.Map : ObjectBytes.Entry);
      const entries = existing(message, name, () => new Map<unknown, unknown>());
      addEntry(entries, element);
    }
  }

  #bytes(field: FieldPlan, message: PartialMessage, end: number): void {
    const from = this.from;
    const room = this.room;
    const start = from.at;
    const to = from.endOfBytes(end);
    room.view();
    if (field.list !== null && room.isFull && to - start <= SHORT_BYTES)
      this.#lateList(field, null, message).pushLate(start);
    else {
      room.take(to > from.at ? ObjectBytes.View : ObjectBytes.Place);
      set(message, field, to > from.at ? from.bytes.subarray(from.at, to) : NO_BYTES);
    }
    from.at = to;
  }

  /** Returns the late elements of a repeated field or map. `plan` null: the elements are bytes. */
  #lateList({ name, isMap }: FieldPlan, plan: MessagePlan | null, message: PartialMessage): LateList<object> {
    const value = message[name];
    if (value instanceof LateList) return value;
    if (value instanceof LateMap) return value.late;
    this.room.hasViews = true;
    this.room.take(ObjectBytes.Late);
    const list = new LateList((isMap ? [] : (value ?? [])) as object[], (at) => this.#decodeLate(plan, at), this.room);
    message[name] = isMap ? new LateMap((value ?? new Map()) as Map<unknown, unknown>, list) : list;
    return list;
  }

  /** Decodes a late element. `plan` null: it is bytes. */
  #decodeLate(plan: MessagePlan | null, start: number): object {
    const from = this.from;
    from.at = start;
    const end = from.endOfBytes(from.bytes.length);
    if (plan !== null) return from.at === end ? EMPTY : this.short(plan, end);
    return from.at === end ? NO_BYTES : from.bytes.subarray(from.at, end);
  }

  #scalar(type: string, end: number): unknown {
    const from = this.from;
    if (type === "double" || type === "float") return realOf(type, from, end);
    from.varint(end);
    return integerOf(type, from);
  }

  #text(to: number): string {
    const from = this.from;
    this.room.text(to - from.at);
    this.room.take(ObjectBytes.Text + 2 * (to - from.at));
    const start = from.at;
    from.at = to;
    const ascii = asciiText(from.bytes, start, to);
    if (ascii !== null) return ascii;
    try {
      return SHORT_TEXTS.decode(from.bytes.subarray(start, to));
    } catch {
      throw new NotProtobuf();
    }
  }

  *#longText(to: number): Pieces<string> {
    const from = this.from;
    this.room.text(to - from.at);
    this.room.take(ObjectBytes.Text + 2 * (to - from.at));
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

  #numbers({ name, type }: FieldPlan, message: PartialMessage): NumberList {
    return existing(message, name, () => {
      this.room.take(ObjectBytes.NumberList);
      return new NumberList(type as ListType);
    });
  }

  /** Skips a group, including the groups inside it. */
  *#skipGroup(tag: number, end: number): Pieces<void> {
    const from = this.from;
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
}

const EMPTY: ReadMessage = {};
/** Reports whether a field is neither repeated nor a map. */
const isSingle = ({ list, isMap }: FieldPlan): boolean => list === null && !isMap;
const NO_BYTES = new Uint8Array();
/** The room of late elements, which are garbage soon after each access, so they are not counted. */
const UNCOUNTED = new MessageRoom(Number.POSITIVE_INFINITY, new HeldMessages(Number.POSITIVE_INFINITY));
const UTF8 = { fatal: true, ignoreBOM: true };
const SHORT_TEXTS = new TextDecoder("utf-8", UTF8);

/** Returns the value of a field, and creates it first if it is missing. */
function existing<T>(message: PartialMessage, name: string, make: () => T): T {
  const found = message[name] as T | undefined;
  if (found !== undefined) return found;
  const value = make();
  message[name] = value;
  return value;
}

function set(message: PartialMessage, { name, choice, list }: FieldPlan, value: unknown): void {
  if (choice !== null) message[choice] = { case: name, value } satisfies Choice;
  else if (list === null) message[name] = value;
  else existing(message, name, (): Pick<unknown[], "push"> => []).push(value);
}
