/** When do requests come that bring no time of their own? `concurrency=N`: as others end. `rate=R`: at random, R a second. */
import { type Random, seeded } from "../base/random.ts";
import { type Pace, TraceError, type TraceItem } from "./trace.ts";

/** `name=value,…` with every name known and once. */
export function parameters(form: string, text: string, names: readonly string[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const part of text === "" ? [] : text.split(",")) {
    const [name = "", value = ""] = part.split("=", 2).map((side) => side.trim());
    if (!names.includes(name)) throw new TraceError(`--format ${form} has ${names.join(", ")}, not "${name}"`);
    if (found.has(name)) throw new TraceError(`--format ${form}: ${name} is given twice`);
    found.set(name, value);
  }
  return found;
}

/** The value of a name as a number, or undefined where it was not given. */
export function parameter(
  form: string,
  given: ReadonlyMap<string, string>,
  name: string,
  whole: boolean,
): number | undefined {
  const text = given.get(name);
  if (text === undefined) return undefined;
  const value = (whole ? /^\d{1,9}$/ : /^(\d{1,9}(\.\d*)?|\.\d+)$/).test(text) ? Number(text) : Number.NaN;
  if (value > 0 || (name === "seed" && value === 0)) return value;
  throw new TraceError(`--format ${form}: ${name} takes a ${whole ? "whole " : ""}number above 0, not "${text}"`);
}

/** `rate` is null in a closed loop, and where all come at once. */
export interface Arrivals {
  readonly pace: Pace;
  readonly rate: number | null;
}

export function arrivalsOf(form: string, given: ReadonlyMap<string, string>): Arrivals | null {
  const concurrency = parameter(form, given, "concurrency", true);
  const rate = parameter(form, given, "rate", false);
  if (concurrency !== undefined && rate !== undefined) {
    throw new TraceError(`--format ${form} takes concurrency or rate, not both`);
  }
  if (concurrency !== undefined) return { pace: { kind: "closed", concurrency }, rate: null };
  return rate === undefined ? null : { pace: { kind: "open" }, rate };
}

/** Poisson arrivals: exponential gaps from the seed. */
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

/** From 0 to below 1. */
function unit(random: Random): number {
  return random() / 2 ** 32;
}
