/**
 * Writes and reads model configurations as JSON. Uses protobuf's JSON mapping with the original field names. Like the real
 * server, prints defaults, and prints 64-bit integers as numbers. A load request may contain such JSON.
 */
import { ITEMS_OF_A_PIECE, type Pieces } from "../../../base/pieces.ts";
import { setOwn } from "../../pydantic/value.ts";
import type { ConfigMessage, Value } from "./pbtxt.ts";
import { type ConfigField, enums, fieldNamed, INTEGER_RANGES, messages, ROOT } from "./schema.ts";

/** Smallest size, in characters, of a yielded part, except the last part. */
const CHARACTERS = 4096;

/**
 * Yields a configuration as JSON, in parts. Prints every scalar that has a default; prints messages and members of a `oneof`
 * only if set. `later`: includes fields newer than 2.51.
 */
export function* configTexts(config: ConfigMessage, later: boolean): Generator<string, void> {
  const printer = new Printer(later);
  yield* printer.message(ROOT, config);
  yield printer.made;
}

class Printer {
  made = "";

  constructor(private readonly later: boolean) {}

  *message(type: string, message: ConfigMessage): Generator<string, void> {
    let mark = "{";
    for (const field of messages.get(type)!) {
      const value = message[field.name];
      const isMessage = messages.has(field.type);
      const isList = field.repeated || field.keys !== null;
      if (!isList && !isMessage) {
        mark = this.#scalar(type, field, value, mark);
        continue;
      }
      if ((field.later && !this.later) || (!isList && value === undefined)) continue;
      this.made += `${mark}"${field.name}":`;
      mark = ",";
      if (isList) yield* this.#list(type, field, value ?? (field.keys === null ? [] : {}), isMessage);
      else yield* this.message(field.type, value as ConfigMessage);
    }
    this.made += mark === "{" ? "{}" : "}";
  }

  /** Appends one scalar field. Returns the character that must precede the next field. */
  #scalar(of: string, { name, type, choice, later }: ConfigField, value: Value | undefined, mark: string): string {
    if ((later && !this.later) || (value === undefined && choice !== null)) return mark;
    const printed = value ?? defaultOf(type);
    this.made += `${mark}"${name}":${JSON.stringify(LEFT_AS_TEXT[of] === name ? `${printed}` : printed)}`;
    return ",";
  }

  *#list(of: string, { name, type, keys }: ConfigField, value: Value, isMessage: boolean): Generator<string, void> {
    const names = keys === null ? null : Object.keys(value as ConfigMessage);
    const items = names === null ? (value as readonly Value[]) : names;
    const isText = LEFT_AS_TEXT[of] === name;
    this.made += names === null ? "[" : "{";
    for (let at = 0; at < items.length; at++) {
      if (at > 0) this.made += ",";
      if (names !== null) this.made += `${JSON.stringify(names[at])}:`;
      const item = names === null ? items[at]! : (value as ConfigMessage)[names[at]!]!;
      if (isMessage) yield* this.message(type, item as ConfigMessage);
      else this.made += JSON.stringify(isText ? `${item}` : item);
      if (this.made.length >= CHARACTERS) yield this.#taken();
    }
    this.made += names === null ? "]" : "}";
  }

  #taken(): string {
    const { made } = this;
    this.made = "";
    return made;
  }
}

/**
 * Fields whose 64-bit integers stay strings, as protobuf prints them, because `ModelConfigToJson` in `model_config_utils.cc`
 * does not convert them.
 */
const LEFT_AS_TEXT: Readonly<Record<string, string>> = {
  "ModelInstanceGroup.SecondaryDevice": "device_id",
  "ModelOptimizationPolicy.Cuda.GraphSpec.Shape": "dim",
  "ModelSequenceBatching.InitialState": "dims",
};

function defaultOf(type: string): string | boolean | number {
  if (type === "string") return "";
  if (type === "bool") return false;
  return enums.get(type)?.[0] ?? 0;
}

/** Matches a JSON string, or a comma before a closing bracket. */
const TEXT_OR_COMMA = /("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])/g;

/** Removes trailing commas of lists and objects, which protobuf's parser accepts. */
export const withoutLastCommas = (text: string): string => text.replaceAll(TEXT_OR_COMMA, "$1");

/**
 * Reads a configuration. Throws if the JSON is not one: an unknown field, a value of the wrong type, or two members of a
 * `oneof`. As in protobuf's parser, a list with one item may omit its brackets.
 */
export function configFromJson(json: unknown, later: boolean): Pieces<ConfigMessage> {
  return read(ROOT, json, later);
}

const camel = (name: string) => name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase());

function* read(type: string, json: unknown, later: boolean): Pieces<ConfigMessage> {
  if (typeof json !== "object" || json === null || Array.isArray(json)) throw new Error(`${type}: must be an object`);
  const made: Record<string, Value> = {};
  const fields = messages.get(type)!;
  for (const [key, value] of Object.entries(json)) {
    const field = fieldNamed(type, key) ?? fields.find(({ name }) => camel(name) === key);
    if (field === undefined || (field.later && !later)) throw new Error(`${type} has no field ${key}`);
    if (value === null) continue;
    const other =
      field.choice !== null && fields.find((member) => member.choice === field.choice && member.name in made);
    if (other) throw new Error(`${field.name}: must not be set together with ${other.name}`);
    if (field.keys !== null) {
      if (typeof value !== "object" || Array.isArray(value)) throw new Error(`${key}: must be an object`);
      made[field.name] = yield* readMap(field, value, later);
    } else if (field.repeated) {
      made[field.name] = yield* readList(field, Array.isArray(value) ? value : [value], later);
    } else made[field.name] = yield* readItem(field, value, later);
  }
  return made;
}

function* readItem(field: ConfigField, json: unknown, later: boolean): Pieces<Value> {
  return messages.has(field.type) ? yield* read(field.type, json, later) : readScalar(field, json);
}

function* readMap(field: ConfigField, json: object, later: boolean): Pieces<ConfigMessage> {
  const made: Record<string, Value> = {};
  for (const [at, key] of Object.keys(json).entries()) {
    const item = (json as Record<string, unknown>)[key];
    setOwn(made, key, yield* readItem(field, item, later));
    if (at % ITEMS_OF_A_PIECE === 0) yield;
  }
  return made;
}

function* readList(field: ConfigField, json: readonly unknown[], later: boolean): Pieces<readonly Value[]> {
  const made: Value[] = [];
  for (const item of json) {
    made.push(yield* readItem(field, item, later));
    if (made.length % ITEMS_OF_A_PIECE === 0) yield;
  }
  return made;
}

function readScalar({ type, name }: ConfigField, json: unknown): Value {
  const values = enums.get(type);
  const value = values === undefined ? json : typeof json === "number" ? values[json] : json;
  if (values?.includes(value as string)) return value as string;
  if (type === "string" && typeof value === "string") return value;
  if (type === "bool" && typeof value === "boolean") return value;
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  if (typeof number === "number" && !Number.isNaN(number) && !values && type !== "string" && type !== "bool") {
    if (type === "float" || type === "double") return number;
    const [least, most] = INTEGER_RANGES[type] ?? [0, 0];
    if (Number.isInteger(number) && number >= least && number <= most) return number;
  }
  throw new Error(`${name}: must be of type ${type}`);
}
