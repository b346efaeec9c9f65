/** Reads typed values out of decoded MessagePack. An error names the field by its path, for example `sampling_params.seed`. */
import { Float32, type MsgpackMap, type MsgpackValue } from "../../../wire/msgpack/values.ts";

/** A message that is MessagePack, but not one of vLLM's messages. */
export class MessageError extends Error {
  override readonly name: string = "MessageError";
}

/** Returns a value as type `T`. Throws a `MessageError` if it has another type. `path`: names the field in the error's text. */
export type ReadField<T> = (value: MsgpackValue, path: string) => T;

const refuse = (wanted: string, value: MsgpackValue, path: string): never => {
  throw new MessageError(`${path}: takes ${wanted}, not ${kindOf(value)}`);
};

function kindOf(value: MsgpackValue): string {
  if (value === null) return "null";
  if (typeof value !== "object") return typeof value === "string" ? "a text" : String(value);
  if (value instanceof Map) return "a map";
  return Array.isArray(value) ? "a list" : value.constructor.name;
}

export const integerField: ReadField<number> = (value, path) =>
  typeof value === "number" && Number.isInteger(value) ? value : refuse("an integer below 2^53", value, path);

/** Returns an integer of up to 64 bits: as a bigint if a number cannot hold it exactly, that is from 2^53, else as a number. */
export const integer64Field: ReadField<number | bigint> = (value, path) =>
  typeof value === "bigint" ? value : integerField(value, path);

/**
 * Returns an integer or a float as a number. A 32-bit float becomes the shortest decimal number that rounds to it: 0.7, not
 * 0.699999988.
 */
export const numberField: ReadField<number> = (value, path) => {
  if (value instanceof Float32) return value.short;
  return typeof value === "number" ? value : refuse("a number", value, path);
};

export const textField: ReadField<string> = (value, path) =>
  typeof value === "string" ? value : refuse("a text", value, path);

export const booleanField: ReadField<boolean> = (value, path) =>
  typeof value === "boolean" ? value : refuse("a boolean", value, path);

export const mapField: ReadField<MsgpackMap> = (value, path) =>
  value instanceof Map ? (value as MsgpackMap) : refuse("a map", value, path);

/** Returns a value of any type as it is. */
export const anyField: ReadField<MsgpackValue> = (value) => value;

export const listField: ReadField<readonly MsgpackValue[]> = (value, path) =>
  Array.isArray(value) ? value : refuse("a list", value, path);

export const listFieldOf =
  <T>(read: ReadField<T>): ReadField<readonly T[]> =>
  (value, path) =>
    listField(value, path).map((one, at) => read(one, `${path}[${at}]`));

/** Returns a reader that also accepts null, and returns it. */
export const nullableField =
  <T>(read: ReadField<T>): ReadField<T | null> =>
  (value, path) =>
    value === null ? null : read(value, path);

/** Returns a map whose keys are integers and whose values are numbers, such as `logit_bias`. */
export const numbersByIntegerField: ReadField<ReadonlyMap<number, number>> = (value, path) =>
  new Map([...mapField(value, path)].map(([key, one]) => [integerField(key, path), numberField(one, path)]));

/**
 * Converts a value to what `JSON.parse` would return: a map becomes an object, whose keys are texts, and an integer from 2^53 on
 * the nearest number.
 */
export function jsonValue(value: MsgpackValue): unknown {
  if (value instanceof Float32) return value.short;
  if (typeof value === "bigint") return Number(value);
  if (value instanceof Map) return Object.fromEntries([...value].map(([key, one]) => [String(key), jsonValue(one)]));
  return Array.isArray(value) ? value.map(jsonValue) : value;
}
export const jsonObjectField: ReadField<Readonly<Record<string, unknown>>> = (value, path) =>
  jsonValue(mapField(value, path)) as Readonly<Record<string, unknown>>;

/** A member of a map: the reader of its value, and the value if the map lacks it (`otherwise`). */
export interface MapMember<T> {
  readonly read: ReadField<T>;
  readonly otherwise: T;
}
export const mapMember = <T>(read: ReadField<T>, otherwise: T): MapMember<T> => ({ read, otherwise });

type Members = Readonly<Record<string, MapMember<unknown>>>;
export type ReadMembers<M extends Members> = { readonly [K in keyof M]: M[K] extends MapMember<infer T> ? T : never };

/** Reads the members that are listed in `members`. `find`: returns a member by its name, or undefined if it is absent. */
export function readMembers<M extends Members>(
  members: M,
  find: (name: string) => MsgpackValue | undefined,
  path: string,
): ReadMembers<M> {
  const made: Record<string, unknown> = {};
  for (const [name, { read, otherwise }] of Object.entries(members)) {
    const found = find(name);
    made[name] = found === undefined ? otherwise : read(found, path === "" ? name : `${path}.${name}`);
  }
  return made as ReadMembers<M>;
}
