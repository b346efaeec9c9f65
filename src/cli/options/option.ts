/**
 * Kinds of options, such as integers and toggles. A kind sets how many values an option takes, and how their texts are parsed.
 */

import { jsonObjectIn } from "../../base/json-object.ts";

export interface Option<T = unknown> {
  /**
   * Number of values. `toggle`: none, as --x or --no-x. `switch`: none, as --x only. `one`: one value. `optional`: one value or
   * none. `list`: at least one.
   */
  readonly arity: "toggle" | "switch" | "one" | "optional" | "list";
  /** Description of the accepted values. Completes the sentence "takes …" in messages. */
  readonly accepts: string;
  /** All accepted texts. Absent: there are too many to list. */
  readonly choices?: readonly string[];
  /** Placeholder that stands for the value in the help text; "" if the option takes no value. */
  readonly metavar: string;
  /** True if the value is a JSON object, of which `--name.key` sets one key. */
  readonly isKeyed?: true;
  /**
   * Parses the texts of the values. Returns undefined if the option does not accept them. A toggle gets the text "true" or
   * "false".
   */
  readonly read: (texts: readonly string[]) => T | undefined;
}

export type ValueOf<O> = O extends Option<infer T> ? T : never;

/** A row of a table of options. */
export type OptionRow<T = unknown> = Option<T> & {
  /** Heading of the help text under which the option is listed. */
  readonly group: string;
  /** Default value, as the help text prints it. A row that is written without a default gets "none". */
  readonly default: string;
  /** Help text of the option: effect, unit and exceptions. */
  readonly about: string;
  /** True if the real server lacks the option. */
  readonly ours?: true;
  /** True if the value is a secret, so that --print-config must not show it. */
  readonly secret?: true;
};

/**
 * Returns the value of a table for a name, or undefined. Unlike `table[name]` never returns an inherited member such as
 * `constructor`.
 */
export function ownValue<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

/** A row before it is put under a heading. */
export type PlainRow = Omit<OptionRow, "group" | "default"> & { readonly default?: string };

/** Makes a row of a table of options: its help text (effect, unit and exceptions), and all else of it. */
export const row = <const R extends object>(about: string, rest: R): R & { readonly about: string } => ({
  ...rest,
  about,
});

/** Returns the first of the names that has a value. */
export const firstGiven = <N extends string>(values: { readonly [K in N]?: unknown }, names: readonly N[]) =>
  names.find((name) => values[name] !== undefined);

type Rows = Readonly<Record<string, PlainRow>>;
type WithShared<R extends Rows, Shared> = {
  readonly [Name in keyof R]: R[Name] & Shared & { readonly default: string };
};

/** Puts rows of a command's options under one heading of the help text. For the options of a server use `serveGroup` instead. */
export const inGroup = <const R extends Rows>(group: string, rows: R) => sharing(rows, { group });

/** Returns the rows with the same additional properties in each. */
export function sharing<R extends Rows, Shared extends object>(rows: R, shared: Shared): WithShared<R, Shared> {
  const grouped = Object.entries(rows).map(([name, row]) => [name, { default: "none", ...row, ...shared }]);
  return Object.fromEntries(grouped) as WithShared<R, Shared>;
}

/** Makes an option that takes one value. `read` parses the value and returns undefined to refuse it. */
export function one<T>(metavar: string, accepts: string, read: (written: string) => T | undefined): Option<T> {
  return { arity: "one", accepts, metavar, read: ([written = ""]) => read(written) };
}

export const toggle: Option<boolean> & { readonly default: string } = {
  arity: "toggle",
  accepts: "true or false",
  metavar: "",
  default: "false",
  read: ([text]) => (text === "true" ? true : text === "false" ? false : undefined),
};

/** Option that has the form --x but not --no-x. vLLM has a few such options. */
export const onlyOn: typeof toggle = { ...toggle, arity: "switch" };

export function integer(min: number, max: number = 2 ** 31 - 1): Option<number> {
  return one("N", `a whole number from ${min} to ${max}`, (text) =>
    within(/^[+-]?\d+$/.test(text) ? Number(text) : Number.NaN, min, max),
  );
}

/**
 * Makes an option for vLLM's human-readable integers: 2k is 2000, 2K is 2048, 25.6k is 25600. A fraction must have a lower-case
 * unit.
 */
export function humanInteger(min: number, max: number = 2 ** 31 - 1): Option<number> {
  const accepts = `a whole number from ${min} to ${max}, also as 8k (8000) or 8K (8192)`;
  return one("N", accepts, (text) => within(humanNumber(text), min, max));
}

/**
 * Makes an option for a number from `min` to `max`. `open`: the bound that is not accepted itself; "" if both bounds are
 * accepted.
 */
export function number(min: number, max: number, open: "" | "min" | "max" = ""): Option<number> {
  const accepts = `a number ${open === "min" ? "above" : "from"} ${min} ${open === "max" ? "to below" : "to"} ${max}`;
  return one("X", accepts, (text) => {
    const value = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : Number.NaN;
    if ((open === "min" && value === min) || (open === "max" && value === max)) return undefined;
    return within(value, min, max);
  });
}

export function choice<const T extends string>(...values: readonly T[]): Option<T> {
  const option = one(`{${values.join(",")}}`, values.join(" or "), (text) => values.find((value) => value === text));
  return { ...option, choices: values };
}

/** Like `choice`, but accepts upper and lower case. `values` must be in lower case. */
export const choiceOfAnyCase = <const T extends string>(...values: readonly T[]): Option<T> => {
  const option = choice(...values);
  return { ...option, read: (texts) => option.read(texts.map((text) => text.toLowerCase())) };
};

/** Makes an option that takes one or more of the names in `values`. */
export function namesOf<const T extends string>(values: readonly T[]): Option<readonly T[]> {
  return {
    arity: "list",
    accepts: `one or more of ${values.join(", ")}`,
    choices: values,
    metavar: "NAME",
    read: (texts) => {
      const known = texts.filter((text): text is T => (values as readonly string[]).includes(text));
      return known.length === texts.length ? known : undefined;
    },
  };
}

/** Splits `--flag=value` into flag and value. The value is undefined if the argument has none. */
export function splitAtEquals(token: string): [written: string, attached: string | undefined] {
  const equals = token.indexOf("=");
  return equals < 0 ? [token, undefined] : [token.slice(0, equals), token.slice(equals + 1)];
}

/** Makes an option that takes names with commas between them. `isKnown`: accepts a name; by default any name that is not "". */
export function commaList<T extends string = string>(
  metavar: string,
  accepts: string,
  isKnown: (name: string) => boolean = Boolean,
): Option<readonly T[]> {
  return one(metavar, accepts, (text) => {
    const names = text.split(",").map((name) => name.trim());
    return names.every(isKnown) ? (names as T[]) : undefined;
  });
}

export function freeText(metavar: string, accepts: string): Option<string> {
  return one(metavar, accepts, (value) => value || undefined);
}

/** Makes an option whose value stays a text. A value is accepted if `read` does not return undefined for it. */
export function readable(metavar: string, accepts: string, read: (written: string) => unknown): Option<string> {
  return one(metavar, accepts, (written) => (read(written) === undefined ? undefined : written));
}

export function texts(metavar: string, accepts: string): Option<readonly string[]> {
  return { arity: "list", accepts, metavar, read: (values) => (values.every(Boolean) ? values : undefined) };
}

/** Makes an option for a duration in seconds, such as `500ms`, `1s`, `2m` or `1h`. A number without a unit counts seconds. */
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
