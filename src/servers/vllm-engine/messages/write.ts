/** Writes typed values as MessagePack. Each function writes one value, so that structs are tables of functions. */
import { MsgpackWriter } from "../../../wire/msgpack/writer.ts";

/** State of a message that is written. `frames`: large arrays, which follow the message as frames of their own. */
export interface MessageWriter {
  readonly body: MsgpackWriter;
  readonly frames: Uint8Array[];
}

export type WriteValue<T> = (into: MessageWriter, value: T) => void;

export const writeString: WriteValue<string> = ({ body }, value) => body.text(value);
export const writeBoolean: WriteValue<boolean> = ({ body }, value) => body.bool(value);
export const writeInteger: WriteValue<number | bigint> = ({ body }, value) => body.int(value);
/** Writes a float. Throws a `RangeError` for a value that is no finite number. */
export const writeFloat: WriteValue<number> = ({ body }, value) => {
  if (!Number.isFinite(value)) throw new RangeError(`${value} is not a finite number`);
  body.float64(value);
};

/** Returns a writer of integers from `least` to `most`. It throws a `RangeError` for others. */
export const writeIntegerOf =
  (least: number, most: number): WriteValue<number> =>
  ({ body }, value) => {
    if (!(value >= least && value <= most)) throw new RangeError(`${value} is not ${least} to ${most}`);
    body.int(value);
  };

/** Writes a count. A negative one becomes 0, because `vllm-rs` 0.33.0 never answers again after it has read one. */
export const writeCount: WriteValue<number> = ({ body }, value) => body.int(Math.max(0, value));

export const writeNull: WriteValue<null> = ({ body }) => body.nil();

export const writeNullable =
  <T>(write: WriteValue<T>): WriteValue<T | null> =>
  (into, value) =>
    value === null ? into.body.nil() : write(into, value);

export const writeListOf =
  <T>(write: WriteValue<T>): WriteValue<readonly T[]> =>
  (into, list) => {
    into.body.array(list.length);
    for (const one of list) write(into, one);
  };

/** Writes a map with texts as keys. */
export const writeMapOf =
  <T>(write: WriteValue<T>): WriteValue<Readonly<Record<string, T>>> =>
  (into, values) => {
    const entries = Object.entries(values);
    into.body.map(entries.length);
    for (const [key, one] of entries) {
      into.body.text(key);
      write(into, one);
    }
  };

/** Writes a value of JSON. Whole numbers are written as integers. */
export const writeJson: WriteValue<unknown> = (into, value) => {
  if (value === null || value === undefined) into.body.nil();
  else if (typeof value === "string") into.body.text(value);
  else if (typeof value === "boolean") into.body.bool(value);
  else if (typeof value === "bigint" || Number.isSafeInteger(value)) into.body.int(value as number | bigint);
  else if (typeof value === "number") into.body.float64(value);
  else if (Array.isArray(value)) writeListOf(writeJson)(into, value);
  else writeMapOf(writeJson)(into, value as Readonly<Record<string, unknown>>);
};
export const writeJsonObject: WriteValue<Readonly<Record<string, unknown>>> = writeJson;

type Writers<T> = { readonly [K in keyof T]-?: WriteValue<T[K]> };

/** Writes a struct that travels as a map with all its fields, in the order of `fields`. */
export function writeStruct<T extends object>(fields: Writers<T>): WriteValue<T> {
  const rows = Object.entries(fields).map(
    ([name, write]) =>
      [name as keyof T, encodedBytes((body) => body.text(name)), write as WriteValue<T[keyof T]>] as const,
  );
  return (into, value) => {
    into.body.map(rows.length);
    for (const [name, key, write] of rows) {
      into.body.raw(key);
      write(into, value[name]);
    }
  };
}

/** Writes a struct that travels as a list. `order`: its fields in the order of the list. */
export function writeStructList<T extends object>(order: readonly (keyof T)[], fields: Writers<T>): WriteValue<T> {
  const rows = order.map((name) => [name, fields[name] as WriteValue<T[keyof T]>] as const);
  return (into, value) => {
    into.body.array(rows.length);
    for (const [name, write] of rows) write(into, value[name]);
  };
}

/** Returns the bytes that `write` writes. */
export function encodedBytes(write: (body: MsgpackWriter) => void): Buffer {
  const body = new MsgpackWriter();
  write(body);
  return body.copy();
}
