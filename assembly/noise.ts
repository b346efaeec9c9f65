// Adds noise to step times: jitter, a heavy tail and pauses. All draws come from the seed and the number of the step,
// so the same steps take the same times on any machine. test/assembly/noise.sim.test.ts has a second implementation.
// Without noise options, nothing is drawn.
import { mix } from "./answers";
import { setting, settingI } from "./header";
import { Config, TAIL_MOST } from "./layout";

/** Constants that make the draws for jitter, tail and tail length independent of each other. */
const BELL: i32 = 0x1f83d9ab;
const TAIL: i32 = 0x5be0cd19;
const LENGTH: i32 = 0x137e2179;
/** Attempts of the polar method, each of which fails in one case out of five. If all fail, the draw is the mean. */
const ATTEMPTS: i32 = 16;

let noisy = false;
let seed: i32 = 0;
/** Number of steps so far that computed something. */
let steps: i32 = 0;
/** Time at which the first step was planned, and expected end of the last step. */
let originUs: f64 = -1;
let endUs: f64 = 0;

export function initNoise(): void {
  seed = settingI(Config.NoiseSeed);
  noisy = setting(Config.JitterSigma) > 0 || setting(Config.TailShare) > 0 || setting(Config.PauseEveryUs) > 0;
}

/** Returns the time of a step that is planned at `nowUs` and takes `us` without noise. Whole microseconds, at least 1. */
export function withNoise(us: f64, nowUs: f64): f64 {
  if (!noisy) return us;
  const step = steps++;
  const sigma = setting(Config.JitterSigma);
  let factor: f64 = 1;
  // The factor has the mean 1, so jitter does not change averages.
  if (sigma > 0) factor = Math.exp(sigma * normal(step) - sigma * sigma * 0.5);
  if (setting(Config.TailShare) > 0 && unit(TAIL, step) < setting(Config.TailShare)) {
    factor *= Math.min(<f64>TAIL_MOST, Math.exp(-Math.log(unit(LENGTH, step)) / setting(Config.TailAlpha)));
  }
  let lasts = Math.max(1, Math.floor(us * factor + 0.5));
  // A step planned during another starts when that step ends.
  const beginUs = Math.max(nowUs, endUs);
  if (originUs < 0) originUs = nowUs;
  const every = setting(Config.PauseEveryUs);
  const sinceUs = beginUs - originUs;
  if (every > 0 && Math.floor((sinceUs + lasts) / every) > Math.floor(sinceUs / every)) {
    lasts += setting(Config.PauseUs);
  }
  endUs = beginUs + lasts;
  return lasts;
}

/** Returns a draw from the standard normal distribution, by Marsaglia's polar method. */
function normal(step: i32): f64 {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const x = 2 * unit(BELL + 2 * attempt, step) - 1;
    const y = 2 * unit(BELL + 2 * attempt + 1, step) - 1;
    const square = x * x + y * y;
    if (square < 1 && square > 0) return x * Math.sqrt((-2 * Math.log(square)) / square);
  }
  return 0;
}

/** Returns a uniform draw between 0 and 1, both excluded. */
function unit(stream: i32, step: i32): f64 {
  return (<f64>mix(seed ^ (stream * 0x9e3779b9), step) + 0.5) / 4294967296.0;
}
