/**
 * Encodes answers other than inference by the table of fields, in pieces, so that a long list does not block other requests.
 * The bytes equal those of protobuf's library.
 */

import type { Pieces } from "../../../base/pieces.ts";
import { MESSAGE_HEAD_BYTES } from "../../../wire/grpc/incoming.ts";
import { type ConfigField, enums, messages } from "../model-config/schema.ts";
import { serviceMessages } from "./fields.ts";
import { MessageBuffer, tag } from "./message-buffer.ts";

/** A message in protobuf's JSON. Maps are objects; lists are iterables that are read once. */
export type MessageJson = Readonly<Record<string, unknown>>;

/** Approximate size of the parts of a large message. */
const PART_BYTES = 65_536;
/** Values encoded between two yields. */
const VALUES_OF_A_PIECE = 64;

const fieldsOf = new Map(
  [...messages, ...serviceMessages].map(([name, fields]) => [name, fields.toSorted((a, b) => a.number - b.number)]),
);
const isMessage = ({ type }: ConfigField): boolean => fieldsOf.has(type);
const isOne = ({ repeated, keys }: ConfigField): boolean => !repeated && keys === null;

/** Encodes a message in parts. The first part has room for the message's head. `type`: name of the message. */
export function* messageParts(type: string, json: MessageJson): Pieces<Buffer[]> {
  const [only, other] = fieldsOf.get(type)!;
  if (only !== undefined && other === undefined && isOne(only) && isMessage(only) && json[only.name] !== undefined)
    return inside(only, yield* messageParts(only.type, json[only.name] as MessageJson));
  const writer = new PartsWriter();
  yield* writer.message(type, json, true);
  return writer.ended();
}

/** Wraps a message that is the only content of another one. Its length is known only after it is written. */
function inside({ number }: ConfigField, [first, ...more]: readonly Buffer[]): Buffer[] {
  const bytes = more.reduce((sum, { length }) => sum + length, first!.length - MESSAGE_HEAD_BYTES);
  const head = new MessageBuffer();
  head.begin();
  head.number(tag(number, 2), bytes);
  return [Buffer.concat([head.take(), first!.subarray(MESSAGE_HEAD_BYTES)]), ...more];
}

class PartsWriter {
  readonly #into = new MessageBuffer();
  readonly #parts: Buffer[] = [];
  #values = 0;

  constructor() {
    this.#into.begin();
  }

  ended(): Buffer[] {
    return [...this.#parts, this.#into.take()];
  }

  /** Encodes a message. `outermost`: a part may end after each value. */
  *message(type: string, json: MessageJson, outermost: boolean): Pieces<void> {
    for (const field of fieldsOf.get(type)!) {
      const value = json[field.name];
      if (value === undefined || value === null) continue;
      if (field.keys !== null) yield* this.#map(field, value as MessageJson, outermost);
      else if (field.repeated) yield* this.#list(field, value as Iterable<unknown>, outermost);
      else if (isMessage(field)) yield* this.#inner(field, value as MessageJson);
      else if (field.choice !== null || !isDefault(field, value)) this.#scalar(field, value);
    }
  }

  *#inner({ number, type }: ConfigField, json: MessageJson): Pieces<void> {
    const at = this.#into.open(tag(number, 2));
    yield* this.message(type, json, false);
    this.#into.close(at);
  }

  *#list(field: ConfigField, values: Iterable<unknown>, outermost: boolean): Pieces<void> {
    if (isPacked(field)) {
      yield* this.#packed(field, values);
      return;
    }
    for (const value of values) {
      if (isMessage(field)) yield* this.#inner(field, value as MessageJson);
      else this.#scalar(field, value);
      if (this.#seen(outermost)) yield;
    }
  }

  /** Encodes a packed list of numbers. */
  *#packed(field: ConfigField, values: Iterable<unknown>): Pieces<void> {
    let at: number | null = null;
    for (const value of values) {
      at ??= this.#into.open(tag(field.number, 2));
      this.#number(field.type, value);
      if (this.#seen(false)) yield;
    }
    if (at !== null) this.#into.close(at);
  }

  /** Encodes a map. Each entry is a message with a key and a value, which are written even if they are defaults. */
  *#map({ number, keys, type, ...more }: ConfigField, json: MessageJson, outermost: boolean): Pieces<void> {
    const [key, value] = [1, 2].map((of) => ({ ...more, keys: null, number: of, type: of === 1 ? keys! : type }));
    for (const name of Object.keys(json)) {
      const entry = this.#into.open(tag(number, 2));
      this.#scalar(key!, name);
      if (isMessage(value!)) yield* this.#inner(value!, json[name] as MessageJson);
      else this.#scalar(value!, json[name]);
      this.#into.close(entry);
      if (this.#seen(outermost)) yield;
    }
  }

  #seen(outermost: boolean): boolean {
    if (outermost && this.#into.at >= PART_BYTES) this.#parts.push(this.#into.take());
    return ++this.#values % VALUES_OF_A_PIECE === 0;
  }

  #scalar({ number, type }: ConfigField, value: unknown): void {
    const into = this.#into;
    if (type === "string") into.text(tag(number, 2), value as string);
    else {
      into.tag(tag(number, kindOf(type)));
      this.#number(type, value);
    }
  }

  #number(type: string, value: unknown): void {
    const into = this.#into;
    if (type === "double") into.doubleValue(value as number);
    else if (type === "float") into.floatValue(value as number);
    else into.varint(wholeOf(type, value));
  }
}

const kindOf = (type: string): 0 | 1 | 5 => (type === "double" ? 1 : type === "float" ? 5 : 0);
const isPacked = (field: ConfigField): boolean => field.type !== "string" && !isMessage(field);

/** Returns an integer. 64-bit integers may be strings, enumeration values are names. */
function wholeOf(type: string, value: unknown): number | bigint {
  const values = enums.get(type);
  if (values !== undefined) return values.indexOf(value as string);
  return typeof value === "string" ? BigInt(value) : Number(value);
}

function isDefault({ type }: ConfigField, value: unknown): boolean {
  if (type === "string") return value === "";
  return type === "double" || type === "float" ? value === 0 : Number(wholeOf(type, value)) === 0;
}
