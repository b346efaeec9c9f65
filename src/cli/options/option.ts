/** Kinds of options, such as integers and toggles: how many values they take, and how their text is parsed. */

import { jsonObjectIn } from "../../base/json-object.ts";

export interface Option<T = unknown> {
  /** `toggle`: --x and --no-x. `switch`: only --x. `one`: one value. `optional`: one value or none. `list`: at least one value. */
  readonly arity: "toggle" | "switch" | "one" | "optional" | "list";
  /** Accepted values, for messages. Completes the sentence "takes …". */
  readonly accepts: string;
  /** Placeholder of the value in the help text; "" if the option has no value. */
  readonly metavar: string;
  /** Parses the values. Returns undefined if they are not accepted. A toggle gets "true" or "false". */
  readonly read: (texts: readonly string[]) => T | undefined;
}

export type ValueOf<O> = O extends Option<infer T> ? T : never;

/** A row of an options table. */
export type OptionRow<T = unknown> = Option<T> & {
  /** Heading of the help text under which the option stands. */
  readonly group: string;
  /** Default value as the help text prints it. */
  readonly default: string;
  /** Help text: effect, unit and exceptions. */
  readonly about: string;
  /** Present if the real server does not have the option. */
  readonly ours?: true;
};

/** Returns the table's value for a name, or undefined. Unlike `table[name]` it finds no inherited names such as `constructor`. */
export function ownValue<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

type Rows = Readonly<Record<string, Omit<OptionRow, "group">>>;
type WithShared<R extends Rows, Shared> = { readonly [Name in keyof R]: R[Name] & Shared };

/** Puts rows of a command's options under one heading of the help text. For options of a server use `serveGroup`. */
export const inGroup = <const R extends Rows>(group: string, rows: R) => sharing(rows, { group });

/** Adds the same properties to all rows. */
export function sharing<R extends Rows, Shared extends object>(rows: R, shared: Shared): WithShared<R, Shared> {
  const grouped = Object.entries(rows).map(([name, row]) => [name, { ...row, ...shared }]);
  return Object.fromEntries(grouped) as WithShared<R, Shared>;
}

/** Makes an option that takes one value. `read` returns undefined for a value that is not accepted. */
export function one<T>(metavar: string, accepts: string, read: (written: string) => T | undefined): Option<T> {
  return { arity: "one", accepts, metavar, read: ([written = ""]) => read(written) };
}

export const toggle: Option<boolean> = {
  arity: "toggle",
  accepts: "true or false",
  metavar: "",
  read: ([text]) => (text === "true" ? true : text === "false" ? false : undefined),
};

/** An option with --x but without --no-x. vLLM registers a few of this kind. */
export const onlyOn: Option<boolean> = { ...toggle, arity: "switch" };

export function integer(min: number, max: number = 2 ** 31 - 1): Option<number> {
  return one("N", `a whole number from ${min} to ${max}`, (text) =>
    within(/^[+-]?\d+$/.test(text) ? Number(text) : Number.NaN, min, max),
  );
}

/** vLLM's human-readable integers: 2k is 2000, 2K is 2048, 25.6k is 25600. Fractions need a lower-case unit. */
export function humanInteger(min: number, max: number = 2 ** 31 - 1): Option<number> {
  const accepts = `a whole number from ${min} to ${max}, also as 8k (8000) or 8K (8192)`;
  return one("N", accepts, (text) => within(humanNumber(text), min, max));
}

/** A number from `min` to `max`. `open` names the end that is excluded; "": both ends are accepted. */
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

/** Like `choice`, ignoring case. The values must be lower-case. */
export const choiceOfAnyCase = <const T extends string>(...values: readonly T[]): Option<T> => {
  const option = choice(...values);
  return { ...option, read: (texts) => option.read(texts.map((text) => text.toLowerCase())) };
};

/** A list of one or more of the names. */
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

/** An option whose value stays text. It is accepted if `read` can parse it, that is, does not return undefined. */
export function readable(metavar: string, accepts: string, read: (written: string) => unknown): Option<string> {
  return one(metavar, accepts, (written) => (read(written) === undefined ? undefined : written));
}

export function texts(metavar: string, accepts: string): Option<readonly string[]> {
  return { arity: "list", accepts, metavar, read: (values) => (values.every(Boolean) ? values : undefined) };
}

/** A duration in seconds: `500ms`, `1s`, `2m` or `1h`. A number without a unit is in seconds. */
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
