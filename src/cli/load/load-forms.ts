/** Kinds of option values that only `understudy load` has, such as percentiles and latency limits. */

import type { Slo } from "../../tools/load/measures.ts";
import { commaList, type Option, one } from "../options/option.ts";

/** Makes an option with a list of values. The flag may be repeated; `read` gets the values of all uses as one JSON array. */
export const listOf = <T>(option: Omit<Option<T>, "arity"> & { read: (texts: readonly string[]) => T | undefined }) =>
  ({
    ...option,
    arity: "list",
    read: ([text = "[]"]) => option.read(JSON.parse(text)),
  }) satisfies Option<T>;

/** An option that takes a number above 0, or `inf` for Infinity. */
export const numberOrInf = one<number>("X", "a number above 0, or inf", (text) => {
  if (/^(inf|infinity)$/i.test(text)) return Number.POSITIVE_INFINITY;
  const value = /^(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : Number.NaN;
  return value > 0 && value < 1e9 ? value : undefined;
});

/** Makes an option that takes names of `known`, separated by commas. */
export const namesFrom = <const T extends string>(known: readonly T[]) =>
  commaList<T>("NAME,…", `some of ${known.join(",")}`, (name) => known.some((one) => one === name));

export const percentileList = one<readonly number[]>(
  "P,…",
  "numbers from 0 to 100 with commas between them",
  (text) => {
    const values = text.split(",").map((one) => (/^\s*\d+(\.\d+)?\s*$/.test(one) ? Number(one) : Number.NaN));
    return values.every((value) => value >= 0 && value <= 100) ? [...new Set(values)].sort((a, b) => a - b) : undefined;
  },
);

const SLO_METRICS = ["ttft", "tpot", "itl", "e2el"] as const;
export const SLO_FORM = "ttft:MS, tpot:MS, itl:MS or e2el:MS";

function slo(words: readonly string[]): Slo | undefined {
  const found: Record<string, number> = {};
  for (const word of words) {
    const [, metric = "", limit] = /^([a-z0-9]+):(\d+(?:\.\d+)?)$/.exec(word) ?? [];
    if (!(SLO_METRICS as readonly string[]).includes(metric)) return undefined;
    found[metric] = Number(limit);
  }
  return words.length > 0 ? found : undefined;
}

const words = (texts: readonly string[]): string[] => texts.flatMap((text) => text.split(/\s+/)).filter(Boolean);

export const sloList = listOf<Slo>({
  accepts: `one or more of ${SLO_FORM}`,
  metavar: "METRIC:MS …",
  read: (texts) => slo(words(texts)),
});

/** Value of --sweep-until: the latency limits that end a sweep, and the share of requests that must meet the limits. */
export interface SweepEnd {
  readonly slo: Slo;
  readonly share: number;
}

export const until = one<SweepEnd>("METRIC:MS…@SHARE%", "limits and a share, as in ttft:500 tpot:50@90%", (text) => {
  const [, limits = "", percent] = /^(.*)@(\d+(?:\.\d+)?)%$/.exec(text.trim()) ?? [];
  const found = slo(words([limits]));
  const share = Number(percent) / 100;
  return found !== undefined && share > 0 && share <= 1 ? { slo: found, share } : undefined;
});

export interface SweepRange {
  readonly over: "rate" | "concurrency";
  readonly values: readonly number[];
}

export const sweep = one<SweepRange>(
  "X,…",
  "rising rates, or concurrency: and rising whole numbers, with commas between them",
  (text) => {
    const [, over = "rate", list = ""] = /^(?:(rate|concurrency):)?(.+)$/.exec(text) ?? [];
    const values = list.split(",").map((one) => (/^\s*(\d+\.?\d*|\.\d+)\s*$/.test(one) ? Number(one) : Number.NaN));
    const good = values.every((value, i) => value > (values[i - 1] ?? 0) && value < 1e6);
    if (!good || (over === "concurrency" && !values.every(Number.isInteger))) return undefined;
    return { over: over as SweepRange["over"], values };
  },
);

/** A list option whose values have the form `name=value`. */
export const pairs = listOf<Readonly<Record<string, string>>>({
  accepts: "one or more of NAME=VALUE",
  metavar: "NAME=VALUE …",
  read: (texts) => pairsOf(texts, /^([^=]+)=(.*)$/),
});

/**
 * A list option whose values are headers, as `Name=value` or `Name: value`. Refuses control characters that would end a header.
 */
export const headers = listOf<Readonly<Record<string, string>>>({
  accepts: "NAME=VALUE or NAME:VALUE",
  metavar: "NAME=VALUE …",
  read: (texts) => pairsOf(texts, /^([!#$%&'*+.^_`|~\w-]+)[=:][ \t]*([^\r\n\0]*)$/),
});

function pairsOf(texts: readonly string[], form: RegExp): Readonly<Record<string, string>> | undefined {
  const matches = texts.map((text) => form.exec(text));
  if (texts.length === 0 || matches.some((match) => match === null)) return undefined;
  return Object.fromEntries(matches.map((match) => [match![1]!.trim(), match![2]!.trim()]));
}

export const httpUrl = one<URL>("URL", "an address as in http://127.0.0.1:8000", (text) =>
  /^https?:\/\//i.test(text) && URL.canParse(text) ? new URL(text) : undefined,
);

/** An option that takes a whole number or a range of whole numbers, such as `2` or `2-6`. */
export const wholeRange = one<{ readonly least: number; readonly most: number }>(
  "N[-N]",
  "a whole number above 0, or two as in 2-6",
  (text) => {
    const [, least, most = least] = /^(\d{1,6})(?:-(\d{1,6}))?$/.exec(text) ?? [];
    const range = { least: Number(least), most: Number(most) };
    return range.least >= 1 && range.most >= range.least ? range : undefined;
  },
);
