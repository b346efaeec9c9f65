/** Computes when requests are sent in an open loop: intended times of an arrival process, which only rise. */
import { type Random, seeded } from "../../base/random.ts";

export interface Ramp {
  readonly strategy: "linear" | "exponential";
  readonly startRps: number;
  readonly endRps: number;
}

export interface OpenLoop {
  readonly pattern: "constant" | "poisson" | "gamma";
  /** Requests per second. Infinity sends all at once. */
  readonly rate: number;
  /** Shape of the gamma distribution. 1 is Poisson; smaller values give bursts, larger ones more even gaps. */
  readonly burstiness: number;
  readonly ramp: Ramp | null;
  /**
   * If the number of requests is known, scales the gaps so that the last request is at exactly number / rate, as vllm bench
   * serve does.
   */
  readonly rescale: boolean;
  /** Number of requests to send, and the time limit in microseconds. Infinity for no limit. */
  readonly count: number;
  readonly durationUs: number;
  readonly seed: number;
}

/**
 * Returns the intended times in microseconds from the run's start. The first request is at 0. With `rescale` it comes after
 * its own gap, and all gaps are scaled, as in vllm 0.33.0, `benchmarks/serve.py` get_request.
 */
export function arrivals(loop: OpenLoop): IterableIterator<number> {
  return loop.rescale && Number.isFinite(loop.count) ? rescaled(loop) : plain(loop);
}

function* plain(loop: OpenLoop): IterableIterator<number> {
  const gap = gaps(loop);
  let atUs = 0;
  for (let i = 0; i < loop.count; i++) {
    if (atUs > loop.durationUs) return;
    yield Math.round(atUs);
    atUs += gap(rateAt(loop, i + 1, atUs)) * 1e6;
  }
}

function* rescaled(loop: OpenLoop): IterableIterator<number> {
  const gap = gaps(loop);
  const times = new Float64Array(loop.count);
  let atS = 0;
  for (let i = 0; i < loop.count; i++) {
    atS += gap(rateAt(loop, i, atS * 1e6));
    times[i] = atS;
  }
  const scale = loop.ramp === null && atS > 0 ? loop.count / loop.rate / atS : 1;
  for (const time of times) {
    const atUs = Math.round(time * scale * 1e6);
    if (atUs > loop.durationUs) return;
    yield atUs;
  }
}

/**
 * Returns the rate of the next request. A ramp follows the request's index if their number is known (vLLM's rule), else the
 * time.
 */
function rateAt({ ramp, rate, count, durationUs }: OpenLoop, index: number, atUs: number): number {
  if (ramp === null) return rate;
  const share = Number.isFinite(count) ? index / Math.max(count - 1, 1) : Math.min(1, atUs / durationUs);
  const { strategy, startRps, endRps } = ramp;
  return strategy === "linear" ? startRps + (endRps - startRps) * share : startRps * (endRps / startRps) ** share;
}

/** Returns a function that draws the seconds until the next request at a given rate. */
function gaps({ pattern, burstiness, seed }: OpenLoop): (rate: number) => number {
  const random = seeded(seed ^ 0x51ab5eed);
  return (rate) => {
    if (rate === Number.POSITIVE_INFINITY) return 0;
    if (pattern === "constant" || burstiness === Number.POSITIVE_INFINITY) return 1 / rate;
    const shape = pattern === "poisson" ? 1 : burstiness;
    return gamma(shape, random) / (shape * rate);
  };
}

/**
 * Draws from a gamma distribution with mean `shape` and scale 1, by Marsaglia and Tsang, "A simple method for generating gamma
 * variables" (2000).
 */
export function gamma(shape: number, random: Random): number {
  if (shape === 1) return -Math.log(1 - unit(random));
  if (shape < 1) return gamma(shape + 1, random) * (1 - unit(random)) ** (1 / shape);
  const d = shape - 1 / 3;
  const c = 1 / Math.sqrt(9 * d);
  for (;;) {
    const x = normal(random);
    const v = (1 + c * x) ** 3;
    if (v > 0 && Math.log(1 - unit(random)) < 0.5 * x * x + d - d * v + d * Math.log(v)) return d * v;
  }
}

/** Draws from the normal distribution by the method of Box and Muller. */
function normal(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - unit(random))) * Math.cos(2 * Math.PI * unit(random));
}

/** Draws a number from 0 to below 1. */
const unit = (random: Random): number => random() / 2 ** 32;
