/** Prepares a table of messages and fields for decoding. */
import { isListType } from "./number-list.ts";
import { Wire } from "./wire.ts";

/** The field of bytes whose elements are decoded into one block of memory, because they become a tensor. */
const PACKED_TEXTS = "bytes_contents";

/** A field, prepared for decoding. */
export interface FieldPlan {
  readonly name: string;
  readonly type: string;
  readonly choice: string | null;
  readonly wire: number;
  readonly list: "numbers" | "values" | null;
  /** Plan of the messages in the field, or of the entries of a map (key and value); null for other values. */
  readonly message: MessagePlan | null;
  readonly isMap: boolean;
}
export interface MessagePlan {
  readonly fields: Map<number, FieldPlan>;
}

/** A field of a table. */
export interface WireField {
  readonly name: string;
  readonly number: number;
  /** Name of a message of the table, or of a scalar type of protobuf. */
  readonly type: string;
  readonly repeated: boolean;
  /** Type of the keys of a map, whose values have `type`; null if the field is not a map. */
  readonly keys: string | null;
  /** Name of the `oneof` that contains the field, or null. At most one field of a `oneof` may be set. */
  readonly choice: string | null;
}

/** The plans of messages by name. Each is made when it is first needed. */
export class Plans {
  readonly #plans = new Map<string, MessagePlan>();

  constructor(private readonly messages: ReadonlyMap<string, readonly WireField[]>) {}

  /** Returns the plan of a message, or null if the table does not have it. */
  of(type: string): MessagePlan | null {
    const fields = this.messages.get(type);
    if (fields === undefined) return null;
    const existing = this.#plans.get(type);
    if (existing !== undefined) return existing;
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
