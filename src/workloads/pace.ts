/**
 * Sets the arrival times of requests that have none. `concurrency=N` sends a request when another ends, `rate=R` sends
 * R per second at random.
 */
import { type Random, seeded } from "../base/random.ts";
import { type Pace, TraceError, type TraceItem } from "./trace.ts";

/** Parses `name=value,…`. Throws a TraceError for a name that is unknown or occurs twice. */
export function parameters(form: string, text: string, names: readonly string[]): Map<string, string> {
  const values = new Map<string, string>();
  for (const part of text === "" ? [] : text.split(",")) {
    const [name = "", value = ""] = part.split("=", 2).map((side) => side.trim());
    if (!names.includes(name)) throw new TraceError(`--format ${form} has ${names.join(", ")}, not "${name}"`);
    if (values.has(name)) throw new TraceError(`--format ${form}: ${name} is given twice`);
    values.set(name, value);
  }
  return values;
}

/** Returns the value of a name as a number, or undefined if it is absent. */
export function parameter(
  form: string,
  values: ReadonlyMap<string, string>,
  name: string,
  whole: boolean,
): number | undefined {
  const text = values.get(name);
  if (text === undefined) return undefined;
  const value = (whole ? /^\d{1,9}$/ : /^(\d{1,9}(\.\d*)?|\.\d+)$/).test(text) ? Number(text) : Number.NaN;
  if (value > 0 || (name === "seed" && value === 0)) return value;
  throw new TraceError(`--format ${form}: ${name} must be a ${whole ? "whole " : ""}number above 0, not "${text}"`);
}

/** `rate` is null in a closed loop, and also if all requests arrive at once. */
export interface Arrivals {
  readonly pace: Pace;
  readonly rate: number | null;
}

export function arrivalsOf(form: string, values: ReadonlyMap<string, string>): Arrivals | null {
  const concurrency = parameter(form, values, "concurrency", true);
  const rate = parameter(form, values, "rate", false);
  if (concurrency !== undefined && rate !== undefined) {
    throw new TraceError(`--format ${form} takes concurrency or rate, not both`);
  }
  if (concurrency !== undefined) return { pace: { kind: "closed", concurrency }, rate: null };
  return rate === undefined ? null : { pace: { kind: "open" }, rate };
}

/** Sets Poisson arrivals: exponential gaps drawn from the seed. */
export function spread(items: Iterable<TraceItem>, rate: number | null, seed: number): Iterable<TraceItem> {
  return rate === null ? items : poisson(items, rate, seeded(seed ^ 0x2545f491));
}

function* poisson(items: Iterable<TraceItem>, rate: number, random: Random): Generator<TraceItem> {
  let atUs = 0;
  for (const item of items) {
    if ("expected" in item) yield item;
    else {
      yield { ...item, arrivalUs: Math.round(atUs) };
      atUs += (-Math.log(1 - unit(random)) / rate) * 1e6;
    }
  }
}

/** Returns a number from 0 to 1, excluding 1. */
function unit(random: Random): number {
  return random() / 2 ** 32;
}
