/** Generates the requests of `synthetic:isl=1000,osl=200,concurrency=256`. Lengths are fixed or drawn evenly from a range. */

import { ADAPTERS_MOST } from "../base/core-limits.ts";
import { type Random, seeded } from "../base/random.ts";
import { arrivalsOf, parameter, parameters, spread } from "./pace.ts";
import { type Pace, TraceError, type TraceItem } from "./trace.ts";

export const SYNTHETIC_FORM =
  "synthetic:isl=1000,osl=200,concurrency=256 (or rate=20), and requests=, adapters=, seed=";
const NAMES = ["isl", "osl", "concurrency", "rate", "requests", "adapters", "seed"];
const REQUESTS = 1000;
const LONGEST = 2 ** 30;

interface Range {
  readonly least: number;
  readonly most: number;
}

/** `text` is the part after `synthetic:`. No two prompts share a block. */
export function synthetic(text: string): {
  readonly pace: Pace;
  readonly total: number;
  readonly adapters: number;
  readonly items: (seed: number) => Iterable<TraceItem>;
} {
  const values = parameters("synthetic", text, NAMES);
  const [input, output] = [range(values, "isl"), range(values, "osl")];
  const arrivals = arrivalsOf("synthetic", values);
  if (!arrivals) throw new TraceError(`--format synthetic needs concurrency or rate: ${SYNTHETIC_FORM}`);
  const total = parameter("synthetic", values, "requests", true) ?? REQUESTS;
  const fixedSeed = parameter("synthetic", values, "seed", true);
  const adapters = parameter("synthetic", values, "adapters", true) ?? 0;
  if (adapters > ADAPTERS_MOST)
    throw new TraceError(`--format synthetic: adapters: at most ${ADAPTERS_MOST}, not ${adapters}`);
  const { pace, rate } = arrivals;
  const items = (seed: number) =>
    spread(make(total, input, output, adapters, fixedSeed ?? seed), rate, fixedSeed ?? seed);
  return { pace, total, adapters, items };
}

function make(requests: number, input: Range, output: Range, adapters: number, seed: number): Iterable<TraceItem> {
  const random = seeded(seed);
  let left = requests;
  const next = (): IteratorResult<TraceItem, undefined> => {
    if (left-- <= 0) return { value: undefined, done: true };
    const promptTokens = draw(input, random);
    const outputTokens = draw(output, random);
    const adapter = adapters > 0 ? draw({ least: 1, most: adapters }, random) : 0;
    return { value: { line: 0, arrivalUs: 0, promptTokens, outputTokens, blockIds: null, adapter }, done: false };
  };
  return { [Symbol.iterator]: () => ({ next }) };
}

function range(values: ReadonlyMap<string, string>, name: string): Range {
  const text = values.get(name);
  if (text === undefined) throw new TraceError(`--format synthetic: ${name} is missing: ${SYNTHETIC_FORM}`);
  const [, from = "", to = from] = /^(\d{1,10})(?:-(\d{1,10}))?$/.exec(text) ?? [];
  const [least, most] = [Number(from), Number(to)];
  if (from !== "" && least >= 1 && most >= least && most <= LONGEST) return { least, most };
  throw new TraceError(`--format synthetic: ${name} must be tokens, such as 1000 or 500-1500, not "${text}"`);
}

function draw({ least, most }: Range, random: Random): number {
  return least === most ? least : least + Math.floor((random() / 2 ** 32) * (most - least + 1));
}
