/** A table of messages and their fields, made ready for reading. */
import { isListType } from "./number-list.ts";
import { Wire } from "./wire.ts";

/** Lists of bytes that are read into one memory: their elements become a tensor. */
const PACKED_TEXTS = "bytes_contents";

export interface FieldPlan {
  readonly name: string;
  readonly type: string;
  readonly choice: string | null;
  readonly wire: number;
  readonly list: "numbers" | "values" | null;
  /** Plan of the messages in the field, or of the entries of a map, which have a key and a value. Null: other values. */
  readonly message: MessagePlan | null;
  readonly isMap: boolean;
}
export interface MessagePlan {
  readonly fields: Map<number, FieldPlan>;
}

/** A field as a table has it. */
export interface WireField {
  readonly name: string;
  readonly number: number;
  /** A message of the table, or a scalar of protobuf. */
  readonly type: string;
  readonly repeated: boolean;
  /** Type of the keys of a map, whose values have `type`; null: no map. */
  readonly keys: string | null;
  /** Fields of one choice exclude each other. */
  readonly choice: string | null;
}

/** Messages by their names, made ready for reading when they are first read. */
export class Plans {
  readonly #messages: ReadonlyMap<string, readonly WireField[]>;
  readonly #plans = new Map<string, MessagePlan>();

  constructor(messages: ReadonlyMap<string, readonly WireField[]>) {
    this.#messages = messages;
  }

  /** Null: no message of the table. */
  of(type: string): MessagePlan | null {
    const fields = this.#messages.get(type);
    if (fields === undefined) return null;
    const made = this.#plans.get(type);
    if (made !== undefined) return made;
    const plan: MessagePlan = { fields: new Map() };
    this.#plans.set(type, plan);
    for (const field of fields) plan.fields.set(field.number, this.#field(field));
    return plan;
  }

  #field({ name, type, repeated, keys, choice }: WireField): FieldPlan {
    const isMap = keys !== null;
    const message = isMap ? this.#entry(keys, type) : this.of(type);
    const isNumbers = repeated && message === null && (type === "bytes" ? name === PACKED_TEXTS : isListType(type));
    return {
      name,
      type,
      choice,
      wire: message === null ? (WIRES[type] ?? Wire.Varint) : Wire.Bytes,
      list: isNumbers ? "numbers" : repeated ? "values" : null,
      message,
      isMap,
    };
  }

  #entry(keys: string, type: string): MessagePlan {
    const part = (name: string, of: string) =>
      this.#field({ name, number: 0, type: of, repeated: false, keys: null, choice: null });
    return {
      fields: new Map([
        [1, part("key", keys)],
        [2, part("value", type)],
      ]),
    };
  }
}

const WIRES: Readonly<Record<string, number>> = {
  double: Wire.Bit64,
  float: Wire.Bit32,
  string: Wire.Bytes,
  bytes: Wire.Bytes,
};
