/**
 * Makes equations for the coefficients of step times from the times of a run. An equation says that a time is a sum of unknown
 * coefficients: base, prefill, decode, overhead. Each running sequence gets one token per step, so a request's token gaps are
 * steps. The tokens that all requests got in that time were decoded by these steps, and the prompts whose first token came in
 * that time were prefilled by them.
 */
import type { AnsweredRequest, FitRun } from "./run.ts";

export const COEFFICIENTS = ["base", "prefill", "decode", "overhead"] as const;
export type Coefficient = (typeof COEFFICIENTS)[number];

export interface Equation {
  /** Factors of the coefficients, in the order of `COEFFICIENTS`. */
  readonly factors: readonly number[];
  readonly us: number;
  /** Meaning of the time: steps between tokens, or the time until the first token of a request that ran alone. */
  readonly kind: "step" | "first";
}

/** Number of gaps per equation if all token times are known. Several, so that network jitter matters less. */
const GAPS = 8;
/**
 * Tokens of one step arrive within this share of a short gap: after the first of them, and well before those of the next step.
 */
const TOGETHER_SHARE = 0.4;

/** Returns the equations of a run. `budget`: maximum number of tokens per step. A longer prompt takes several steps. */
export function equationsOf(run: FitRun, budget: number): Equation[] {
  const { requests } = run;
  if (requests === null) return fromMeans(run, budget);
  return [...steps(requests), ...firsts(requests, budget)];
}

/** Makes equations from means. From the time per step and the tokens per second follow the tokens of a step. */
function fromMeans(run: FitRun, budget: number): Equation[] {
  const { completed, durationUs, inputTokens, outputTokens, tpotUs, ttftUs, concurrency } = run;
  const perStep = (tokens: number) => (completed * tokens * tpotUs) / durationUs;
  // A request that runs alone never decodes while another prompt is prefilled.
  const alone = concurrency === 1;
  const factors = alone ? [1, 0, 1, 0] : [1, perStep(inputTokens), perStep(outputTokens - 1), 0];
  const step: Equation = { factors, us: tpotUs, kind: "step" };
  if (!alone) return [step];
  const first = { factors: [Math.ceil(inputTokens / budget), inputTokens, 0, 1], us: ttftUs, kind: "first" } as const;
  return [step, first];
}

function* steps(requests: readonly AnsweredRequest[]): Generator<Equation> {
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
    // Evenly spread times carry no information about single steps, so use one equation for all gaps.
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

/** Makes equations from requests that ran alone until their first token. */
function* firsts(requests: readonly AnsweredRequest[], budget: number): Generator<Equation> {
  let busyUntilUs = Number.NEGATIVE_INFINITY;
  for (const [i, { sentUs, firstUs, lastUs, inputTokens }] of requests.entries()) {
    const next = requests[i + 1]?.sentUs ?? Number.POSITIVE_INFINITY;
    if (busyUntilUs <= sentUs && next >= firstUs) {
      yield { factors: [Math.ceil(inputTokens / budget), inputTokens, 0, 1], us: firstUs - sentUs, kind: "first" };
    }
    busyUntilUs = Math.max(busyUntilUs, lastUs);
  }
}

/** Returns a short gap: one in ten is shorter. */
function shortGapUs(requests: readonly AnsweredRequest[]): number {
  const gaps = requests.flatMap((request) => {
    const times = [request.firstUs, ...laterTimes(request)];
    return times.slice(1).map((us, i) => us - times[i]!);
  });
  return Float64Array.from(gaps).sort()[Math.floor(gaps.length / 10)] ?? 0;
}

/** Returns the times of tokens after the first. If only the last is known, the others are spread evenly. */
function laterTimes({ laterUs, firstUs, lastUs, outputTokens }: AnsweredRequest): readonly number[] {
  if (laterUs !== null) return laterUs;
  const gaps = outputTokens - 1;
  return Array.from({ length: gaps }, (_, i) => firstUs + ((lastUs - firstUs) * (i + 1)) / gaps);
}

/** Returns the number of times that are at most `us`. */
function upTo(sorted: Float64Array, us: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! <= us) low = middle + 1;
    else high = middle;
  }
  return low;
}
