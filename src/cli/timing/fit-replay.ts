/**
 * Fits a linear timing to benchmark runs. Coefficients that no equation determines are found by replaying the runs with trial
 * values.
 */
import { levenbergMarquardt } from "ml-levenberg-marquardt";
import { seeded } from "../../base/random.ts";
import type { EngineConfig } from "../../engine/config/engine-config.ts";
import type { Timing } from "../../engine/config/step-times.ts";
import { COEFFICIENTS, type Coefficient, equationsOf } from "../../tools/fit/equations.ts";
import type { FitRun } from "../../tools/fit/run.ts";
import { type Solution, solve } from "../../tools/fit/solve.ts";
import { Replay } from "../../tools/replay/replay.ts";
import { TraceError, type TraceRequest } from "../../workloads/trace.ts";

/** Maximum number of made-up requests for a run that reports only means. */
const REQUESTS_MOST = 2000;
/** Maximum number of replays to find the overhead. */
const ROUNDS = 10;
/** Difference between replayed and measured TTFT, in microseconds, below which the search for the overhead ends. */
const NEAR_US = 20;
/** For runs that report only means: number of start values to try for the cost of a prompt token. */
const TRIALS = 12;
/** For runs that report only means: number of rounds of least squares, from the best start value. */
const ITERATIONS = 12;
/** Start values in microseconds for coefficients that are 0, in the order base, prefill, decode, overhead. */
const FIRST_US = [1000, 1, 1, 1000];

export type Linear = Extract<Timing, { kind: "linear" }>;

export interface Times {
  readonly ttftUs: number;
  readonly tpotUs: number;
}

export type RunReplayer = (one: FitRun, timing: Timing) => Times;

export interface FitResult {
  readonly timing: Linear;
  readonly solution: Solution;
  /** Coefficients that no equation determines, so that they were found by replays. */
  readonly fromReplays: readonly Coefficient[];
}

/**
 * Fits the timing. `budget`: maximum number of tokens in a step. Returns null if no request has two tokens, because step times
 * are then unknown.
 */
export function fitRuns(runs: readonly FitRun[], budget: number, replayed: RunReplayer): FitResult | null {
  const equations = runs.flatMap((one) => equationsOf(one, budget));
  if (!equations.some(({ kind }) => kind === "step")) return null;
  const isAlone = equations.some(({ kind }) => kind === "first");
  const fitted = (prefillUs?: number): FitResult | null => {
    const solution = solve(equations, prefillUs);
    if (solution === null) return null;
    const timing = linearOf(solution.us);
    if (isAlone) return { timing, solution, fromReplays: prefillUs === undefined ? [] : ["prefill"] };
    const fromReplays: Coefficient[] = prefillUs === undefined ? ["overhead"] : ["prefill", "overhead"];
    return { timing: withOverhead(runs, timing, replayed), solution, fromReplays };
  };
  // Means alone do not separate the costs of prompt and output tokens, because in a closed loop both kinds come in a fixed
  // proportion.
  return runs.every(({ requests }) => requests === null) ? toMeans(runs, fitted, replayed) : fitted();
}

/**
 * Finds the timing whose replayed means are nearest to the measured means. Tries several start values for the cost of a prompt
 * token.
 */
function toMeans(
  runs: readonly FitRun[],
  fitted: (prefillUs: number) => FitResult | null,
  replayed: RunReplayer,
): FitResult | null {
  const mostUs = Math.min(...runs.map(({ ttftUs, inputTokens }) => ttftUs / inputTokens));
  const trials = Array.from({ length: TRIALS }, (_, i) => fitted((i * mostUs) / TRIALS)).filter((one) => one !== null);
  const misses = trials.map(({ timing }) => missOf(ratios(runs, timing, replayed)));
  const start = trials[misses.indexOf(Math.min(...misses))];
  if (start === undefined) return null;
  const from = start.timing;
  const units = [from.baseUs, from.prefillUs, from.decodeUs, from.requestOverheadUs ?? 0].map(
    // Replace a start value of 0, because least squares scale a coefficient from its start value, so that 0 would stay 0.
    (us, i) => us || FIRST_US[i]!,
  );
  const timingOf = (values: readonly number[]) => {
    const [base, prefill, decode, overhead] = values.map((value, i) => value * units[i]!);
    return linearOf({ base: base!, prefill: prefill!, decode: decode!, overhead: overhead! });
  };
  const data = { x: runs.flatMap((_, i) => [2 * i, 2 * i + 1]), y: runs.flatMap(() => [1, 1]) };
  const { parameterValues } = levenbergMarquardt(
    data,
    (values) => {
      const found = ratios(runs, timingOf(values), replayed);
      return (at) => found[at]!;
    },
    {
      initialValues: units.map(() => 1),
      minValues: units.map(() => 0),
      gradientDifference: 0.04,
      centralDifference: true,
      maxIterations: ITERATIONS,
      damping: 0.01,
    },
  );
  const timing = timingOf(parameterValues);
  const isBetter = missOf(ratios(runs, timing, replayed)) < Math.min(...misses);
  return { timing: isBetter ? timing : from, solution: start.solution, fromReplays: COEFFICIENTS };
}

/** Returns the replayed TTFT and TPOT of each run, each divided by the measured value. */
function ratios(runs: readonly FitRun[], timing: Linear, replayed: RunReplayer): number[] {
  return runs.flatMap((one) => {
    const found = replayed(one, timing);
    return [found.ttftUs / one.ttftUs, found.tpotUs / one.tpotUs];
  });
}

const missOf = (all: readonly number[]) => all.reduce((sum, ratio) => sum + (ratio - 1) ** 2, 0);

/** Rounds the coefficients to the digits that are printed, so that the replay uses exactly the printed timing. */
function linearOf({ base, prefill, decode, overhead }: Readonly<Record<Coefficient, number>>): Linear {
  const written = (us: number) => Number(us.toPrecision(5));
  return {
    kind: "linear",
    baseUs: Math.max(1, written(base)),
    prefillUs: written(prefill),
    decodeUs: written(decode),
    requestOverheadUs: written(overhead),
  };
}

/**
 * Finds the overhead for runs in which requests always overlapped: the overhead with which replays have the measured TTFT. It
 * is at most the part of the fastest request's TTFT that its prompt step does not explain.
 */
function withOverhead(runs: readonly FitRun[], timing: Linear, replayed: RunReplayer): Linear {
  const mostUs = Math.max(0, Math.min(...runs.map((one) => leftOver(one, timing))));
  const tried = (us: number): { readonly timing: Linear; readonly lackUs: number } => {
    const next = linearOf({ base: timing.baseUs, prefill: timing.prefillUs, decode: timing.decodeUs, overhead: us });
    const lacks = runs.map((one) => one.ttftUs - replayed(one, next).ttftUs);
    return { timing: next, lackUs: lacks.reduce((sum, lack) => sum + lack, 0) / lacks.length };
  };
  let best = tried(0);
  let [tooLittleUs, tooMuchUs, us] = [0, mostUs, 0];
  for (let round = 0, now = best; round < ROUNDS && Math.abs(now.lackUs) > NEAR_US; round++) {
    if (now.lackUs > 0) tooLittleUs = us;
    else tooMuchUs = us;
    // Bisect if the linear guess lies outside of the interval, which happens because a little more overhead may delay a request
    // by a whole step.
    const next = us + now.lackUs;
    us = next > tooLittleUs && next < tooMuchUs ? next : (tooLittleUs + tooMuchUs) / 2;
    now = tried(us);
    if (Math.abs(now.lackUs) < Math.abs(best.lackUs)) best = now;
  }
  return best.timing;
}

/** Returns the smallest difference between a request's TTFT and the step time of its prompt, in microseconds. */
function leftOver({ requests, ttftUs, inputTokens }: FitRun, { baseUs, prefillUs }: Linear): number {
  if (requests === null) return ttftUs - baseUs - prefillUs * inputTokens;
  return requests.reduce(
    (least, { sentUs, firstUs, inputTokens: n }) => Math.min(least, firstUs - sentUs - baseUs - prefillUs * n),
    Number.POSITIVE_INFINITY,
  );
}

/** Replays a run in simulated time and returns its means. Throws TraceError if a request exceeds --max-model-len. */
export function replay(one: FitRun, config: EngineConfig, module: WebAssembly.Module): Times {
  const { concurrency } = one;
  const simulated = new Replay({
    config,
    module,
    engines: 1,
    requests: requestsOf(one)[Symbol.iterator](),
    pace: concurrency === null ? { kind: "open" } : { kind: "closed", concurrency },
    untilUs: Number.POSITIVE_INFINITY,
  });
  simulated.run();
  const { tooLong } = simulated.counts;
  if (tooLong > 0)
    throw new TraceError(`${one.source}: ${tooLong} requests are longer than --max-model-len ${config.maxModelLen}`);
  const [snapshot] = simulated.fleet.snapshots();
  const { timeToFirstToken, timePerOutputToken } = snapshot!.histograms;
  const us = ({ sum, count }: { readonly sum: number; readonly count: number }) => (1e6 * sum) / Math.max(1, count);
  return { ttftUs: us(timeToFirstToken), tpotUs: us(timePerOutputToken) };
}

function requestsOf(one: FitRun): TraceRequest[] {
  const common = { line: 0, blockIds: null };
  if (one.requests !== null) {
    const fromUs = one.requests[0]!.sentUs;
    return one.requests.map(({ sentUs, inputTokens, outputTokens }) => {
      const arrivalUs = one.concurrency === null ? Math.round(sentUs - fromUs) : 0;
      return { ...common, arrivalUs, promptTokens: inputTokens, outputTokens };
    });
  }
  const count = Math.min(REQUESTS_MOST, Math.round(one.completed));
  const gapUs = one.concurrency === null ? one.durationUs / one.completed : 0;
  const random = seeded(0);
  const drawn = (mean: number, std = 0) => {
    const evenly = (2 * random()) / 2 ** 32 - 1;
    return Math.max(1, Math.round(mean + Math.sqrt(3) * std * evenly));
  };
  return Array.from({ length: count }, (_, i) => ({
    ...common,
    arrivalUs: Math.round(i * gapUs),
    promptTokens: drawn(one.inputTokens, one.inputStd),
    outputTokens: drawn(one.outputTokens, one.outputStd),
  }));
}
