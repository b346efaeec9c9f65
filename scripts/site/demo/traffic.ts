/** Draws the requests of the demo: arrivals in waves, with prompts and answers of drawn lengths. */
import { type Random, seeded } from "../../../src/base/random.ts";

/** A request that is not submitted yet. Times are microseconds of simulated time, lengths are tokens. */
export interface Arrival {
  readonly atUs: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
}

/** Period and height of the waves. At 0.7 the load goes from 0.3 to 1.7 times its mean. */
const WAVE_US = 9e6;
const WAVE_HEIGHT = 0.7;

/**
 * Means of log-normal lengths, and their spread. Longer ones are cut off, so that each request fits into the smallest cache
 * with the highest watermark.
 */
const PROMPT = { mean: 420, sigma: 0.8, most: 2000 };
const OUTPUT = { mean: 180, sigma: 0.6, most: 800 };

/** Returns a number in (0, 1]. */
const share = (random: Random) => (random() + 1) / 2 ** 32;

function logNormal(random: Random, { mean, sigma, most }: typeof PROMPT): number {
  const normal = Math.sqrt(-2 * Math.log(share(random))) * Math.cos(2 * Math.PI * share(random));
  return Math.min(most, Math.max(1, Math.round(mean * Math.exp(sigma * normal - sigma ** 2 / 2))));
}

/** Yields requests in the order of their arrival, without end. Yields none for a load of 0. The seed decides all draws. */
export function* arrivals(perSecond: number, seed: number): Generator<Arrival, undefined> {
  const random = seeded(seed);
  const most = perSecond * (1 + WAVE_HEIGHT);
  // Draw arrivals at the highest load and keep each with the probability that its moment of the wave has.
  for (let atUs = 0; most > 0; ) {
    atUs += Math.max(1, Math.round((-Math.log(share(random)) / most) * 1e6));
    const height = 1 + WAVE_HEIGHT * Math.sin((2 * Math.PI * atUs) / WAVE_US);
    if (share(random) * (1 + WAVE_HEIGHT) > height) continue;
    yield { atUs, promptTokens: logNormal(random, PROMPT), outputTokens: logNormal(random, OUTPUT) };
  }
  return undefined;
}
