/**
 * What do the times of a run say of the coefficients? Each equation is a time as a sum of unknowns: base, prefill, decode,
 * overhead. Every decoding sequence gets a token per step, so the gaps of one request are steps, the tokens that all requests
 * got meanwhile are what those steps decoded, and the prompts whose first token came meanwhile are what they prefilled.
 */
import type { Answered, FitRun } from "./run.ts";

export const UNKNOWNS = ["base", "prefill", "decode", "overhead"] as const;
export type Unknown = (typeof UNKNOWNS)[number];

export interface Equation {
  /** By `UNKNOWNS`. */
  readonly factors: readonly number[];
  readonly us: number;
  /** What its time is: steps between tokens, or all until the first token of a request that was alone. */
  readonly kind: "step" | "first";
}

/** Gaps that make one equation where the time of each token is known: long enough for the jitter of a network. */
const GAPS = 8;
/** Tokens of one step arrive within this share of a short gap: later than the first of them, and well before the next step's. */
const TOGETHER_SHARE = 0.4;

/** `budget`: most tokens of a step; a longer prompt takes several. */
export function equationsOf(run: FitRun, budget: number): Equation[] {
  const { requests } = run;
  if (requests === null) return fromMeans(run, budget);
  return [...steps(requests), ...firsts(requests, budget)];
}

/** At S per step, the tokens per second that come and go say what a step holds. */
function fromMeans(run: FitRun, budget: number): Equation[] {
  const { completed, durationUs, inputTokens, outputTokens, tpotUs, ttftUs, concurrency } = run;
  const perStep = (tokens: number) => (completed * tokens * tpotUs) / durationUs;
  // Alone, a request never decodes while another's prompt is computed.
  const alone = concurrency === 1;
  const factors = alone ? [1, 0, 1, 0] : [1, perStep(inputTokens), perStep(outputTokens - 1), 0];
  const step: Equation = { factors, us: tpotUs, kind: "step" };
  if (!alone) return [step];
  const first = { factors: [Math.ceil(inputTokens / budget), inputTokens, 0, 1], us: ttftUs, kind: "first" } as const;
  return [step, first];
}

function* steps(requests: readonly Answered[]): Generator<Equation> {
  const later = Float64Array.from(requests.flatMap(laterTimes)).sort();
  const firsts = requests.map(({ firstUs, inputTokens }) => ({ firstUs, inputTokens }));
  firsts.sort((a, b) => a.firstUs - b.firstUs);
  const firstUs = Float64Array.from(firsts, (first) => first.firstUs);
  const prompts = new Float64Array(firsts.length + 1);
  for (const [i, { inputTokens }] of firsts.entries()) prompts[i + 1] = prompts[i]! + inputTokens;
  const togetherUs = TOGETHER_SHARE * shortGapUs(requests);
  const within = (times: Float64Array, fromUs: number, toUs: number) =>
    [upTo(times, fromUs + togetherUs), upTo(times, toUs + togetherUs)] as const;
  for (const request of requests) {
    const times = [request.firstUs, ...laterTimes(request)];
    // Times that are spread evenly say nothing of single steps.
    const gaps = request.laterUs === null ? times.length - 1 : Math.min(GAPS, times.length - 1);
    for (let from = 0; from + gaps < times.length && gaps > 0; from += gaps) {
      const [fromUs, toUs] = [times[from]!, times[from + gaps]!];
      if (!(toUs > fromUs)) continue;
      const [a, b] = within(later, fromUs, toUs);
      const [c, d] = within(firstUs, fromUs, toUs);
      const factors = [1, (prompts[d]! - prompts[c]!) / gaps, (b - a) / gaps, 0];
      yield { factors, us: (toUs - fromUs) / gaps, kind: "step" };
    }
  }
}

/** Equations from requests that had the engine for themselves until their first token. */
function* firsts(requests: readonly Answered[], budget: number): Generator<Equation> {
  let busyUntilUs = Number.NEGATIVE_INFINITY;
  for (const [i, { sentUs, firstUs, lastUs, inputTokens }] of requests.entries()) {
    const next = requests[i + 1]?.sentUs ?? Number.POSITIVE_INFINITY;
    if (busyUntilUs <= sentUs && next >= firstUs) {
      yield { factors: [Math.ceil(inputTokens / budget), inputTokens, 0, 1], us: firstUs - sentUs, kind: "first" };
    }
    busyUntilUs = Math.max(busyUntilUs, lastUs);
  }
}

/** One in ten gaps is shorter. */
function shortGapUs(requests: readonly Answered[]): number {
  const gaps = requests.flatMap((request) => {
    const times = [request.firstUs, ...laterTimes(request)];
    return times.slice(1).map((us, i) => us - times[i]!);
  });
  return Float64Array.from(gaps).sort()[Math.floor(gaps.length / 10)] ?? 0;
}

/** Where only the last token's time is known, those before are spread evenly. */
function laterTimes({ laterUs, firstUs, lastUs, outputTokens }: Answered): readonly number[] {
  if (laterUs !== null) return laterUs;
  const gaps = outputTokens - 1;
  return Array.from({ length: gaps }, (_, i) => firstUs + ((lastUs - firstUs) * (i + 1)) / gaps);
}

/** How many are at most `us`. */
function upTo(sorted: Float64Array, us: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! <= us) low = middle + 1;
    else high = middle;
  }
  return low;
}
