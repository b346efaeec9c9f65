/** What is an option: how many values it takes, how a text becomes its value, what it says of itself? */

import { jsonObjectIn } from "../../base/json-object.ts";

export interface Option<T = unknown> {
  /** `toggle` is --x and --no-x; `optional` is one value or none; a list takes one or more. */
  readonly arity: "toggle" | "switch" | "one" | "optional" | "list";
  /** Ends the sentence "takes …". */
  readonly accepts: string;
  /** Placeholder in the help; "" where there is no value. */
  readonly metavar: string;
  /** Undefined when the texts are no such value. A toggle gets "true" or "false". */
  readonly read: (texts: readonly string[]) => T | undefined;
}

export type ValueOf<O> = O extends Option<infer T> ? T : never;

/** A line of an options table. */
export type OptionRow<T = unknown> = Option<T> & {
  readonly group: string;
  /** As the help prints it. */
  readonly default: string;
  readonly about: string;
  /** Not an option of `vllm serve`. */
  readonly ours?: true;
};

/** What a table has under a name that somebody wrote: `constructor` is in none. */
export function ownValue<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

type Rows = Readonly<Record<string, Omit<OptionRow, "group">>>;
type Grouped<R extends Rows, Shared> = { readonly [Name in keyof R]: R[Name] & Shared };

/** Rows of a command's options that the help lists under one heading. Those of a server: `serveGroup`. */
export const inGroup = <const R extends Rows>(group: string, rows: R) => sharing(rows, { group });

/** Adds the same members to all rows. */
export function sharing<R extends Rows, Shared extends object>(rows: R, shared: Shared): Grouped<R, Shared> {
  const grouped = Object.entries(rows).map(([name, row]) => [name, { ...row, ...shared }]);
  return Object.fromEntries(grouped) as Grouped<R, Shared>;
}

/** An option of one value. */
export function one<T>(metavar: string, accepts: string, read: (written: string) => T | undefined): Option<T> {
  return { arity: "one", accepts, metavar, read: ([written = ""]) => read(written) };
}

export const toggle: Option<boolean> = {
  arity: "toggle",
  accepts: "true or false",
  metavar: "",
  read: ([text]) => (text === "true" ? true : text === "false" ? false : undefined),
};

/** Only --x: vLLM registers a few so. */
export const onlyOn: Option<boolean> = { ...toggle, arity: "switch" };

export function integer(min: number, max: number = 2 ** 31 - 1): Option<number> {
  return one("N", `a whole number from ${min} to ${max}`, (text) =>
    within(/^[+-]?\d+$/.test(text) ? Number(text) : Number.NaN, min, max),
  );
}

/** vLLM's human-readable integers: 2k is 2000, 2K is 2048, 25.6k is 25600; a fraction only before a small letter. */
export function humanInteger(min: number, max: number = 2 ** 31 - 1): Option<number> {
  const accepts = `a whole number from ${min} to ${max}, also as 8k (8000) or 8K (8192)`;
  return one("N", accepts, (text) => within(humanNumber(text), min, max));
}

/** A number of [min, max], the ends included unless `open` names them. */
export function number(min: number, max: number, open: "" | "min" | "max" = ""): Option<number> {
  const accepts = `a number ${open === "min" ? "above" : "from"} ${min} ${open === "max" ? "to below" : "to"} ${max}`;
  return one("X", accepts, (text) => {
    const value = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : Number.NaN;
    if ((open === "min" && value === min) || (open === "max" && value === max)) return undefined;
    return within(value, min, max);
  });
}

export function choice<const T extends string>(...values: readonly T[]): Option<T> {
  return one(`{${values.join(",")}}`, values.join(" or "), (text) => values.find((value) => value === text));
}

/** Capital letters are as good as small ones. */
export const choiceOfAnyCase = <const T extends string>(...values: readonly T[]): Option<T> => {
  const option = choice(...values);
  return { ...option, read: (texts) => option.read(texts.map((text) => text.toLowerCase())) };
};

/** One or more of some names. */
export function namesOf<const T extends string>(values: readonly T[]): Option<readonly T[]> {
  return {
    arity: "list",
    accepts: `one or more of ${values.join(", ")}`,
    metavar: "NAME",
    read: (texts) => {
      const known = texts.filter((text): text is T => (values as readonly string[]).includes(text));
      return known.length === texts.length ? known : undefined;
    },
  };
}

export function freeText(metavar: string, accepts: string): Option<string> {
  return one(metavar, accepts, (value) => value || undefined);
}

/** The text as it is, where `read` finds something in it. */
export function readable(metavar: string, accepts: string, read: (written: string) => unknown): Option<string> {
  return one(metavar, accepts, (written) => (read(written) === undefined ? undefined : written));
}

export function texts(metavar: string, accepts: string): Option<readonly string[]> {
  return { arity: "list", accepts, metavar, read: (values) => (values.every(Boolean) ? values : undefined) };
}

/** `500ms`, `1s`, `2m`, `1h`; a bare number is seconds. */
export function seconds(
  least: number,
  most: number,
  accepts = `seconds from ${least} to ${most}, or a duration as in 500ms or 2m`,
): Option<number> {
  return one("TIME", accepts, (written) => {
    const [, digits = "", unit = "s"] = /^(\d+\.?\d*|\.\d+)(ms|s|m|h)?$/.exec(written) ?? [];
    const value = Number(digits || Number.NaN) * { ms: 0.001, s: 1, m: 60, h: 3600 }[unit as "ms"]!;
    return within(value, least, most);
  });
}

export function jsonObject(
  accepts: string,
  isSound: (value: Readonly<Record<string, unknown>>) => boolean = () => true,
): Option<Readonly<Record<string, unknown>>> {
  return one("JSON", accepts, (text) => {
    const value = jsonObjectIn(text);
    return value !== null && isSound(value) ? value : undefined;
  });
}

function within(value: number, min: number, max: number): number | undefined {
  return value >= min && value <= max ? value : undefined;
}

function humanNumber(text: string): number {
  const match = /^(\d+)(\.\d+)?([kKmMgGtT]?)$/.exec(text);
  if (!match) return Number.NaN;
  const [, whole, fraction = "", unit = ""] = match;
  const power = "kmgt".indexOf(unit.toLowerCase()) + 1;
  if (unit === "") return fraction ? Number.NaN : Number(whole);
  if (unit !== unit.toLowerCase()) return fraction ? Number.NaN : Number(whole) * 1024 ** power;
  return Math.trunc(Number(whole + fraction) * 1000 ** power);
}
