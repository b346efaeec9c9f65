// Computes how long a step takes, from sums that the scheduler updates while it plans. Rounded once per step, half up.
// Forms and sources: src/engine/config/step-times.ts (Timing). Formula of the presets: src/engine/timing/profiles/.
import { columnF } from "./column";
import { setAddress, setting, settingI, setWord } from "./header";
import { Config, LINEAR_POINTS_MOST, TimingKind, Word } from "./layout";

/**
 * Sums over the plan: new prompt tokens, computed tokens before them, pairs of attending and attended tokens, decoding
 * sequences, and their context tokens.
 */
let promptTokens: f64 = 0;
let prefixTokens: f64 = 0;
let pairs: f64 = 0;
let decodes: f64 = 0;
let context: f64 = 0;

let points: i32 = 0;
let linearTokens = changetype<StaticArray<f64>>(0);
let linearUs = changetype<StaticArray<f64>>(0);

export function allocateTiming(): void {
  linearTokens = columnF(LINEAR_POINTS_MOST);
  linearUs = columnF(LINEAR_POINTS_MOST);
  readTiming();
}
/** Reads the number of points in the table. TypeScript fills the table later. */
export function readTiming(): void {
  points = settingI(Config.LinearPoints);
}
export function publishTiming(): void {
  setAddress(Word.LinearTokensAt, changetype<usize>(linearTokens));
  setAddress(Word.LinearUsAt, changetype<usize>(linearUs));
}

export function clearSums(): void {
  promptTokens = 0;
  prefixTokens = 0;
  pairs = 0;
  decodes = 0;
  context = 0;
}

/** Publishes the plan's decodes and prompt tokens for readers outside the core. */
export function publishSums(): void {
  setWord(Word.PlanDecodes, <i32>decodes);
  setWord(Word.PlanPrefillTokens, <i32>promptTokens);
}

/** Adds `n` new prompt tokens after `prefix` computed tokens. A `sign` of -1 takes them back. */
export function addPrefill(n: i32, prefix: i32, sign: f64): void {
  const tokens = <f64>n;
  promptTokens += sign * tokens;
  prefixTokens += sign * <f64>prefix;
  pairs += sign * tokens * (<f64>prefix + (tokens + 1) * 0.5);
}

/** Adds `sequences` decodes that together attend to `tokens` cached tokens. */
export function addDecodes(sequences: i32, tokens: f64): void {
  decodes += <f64>sequences;
  context += tokens;
}

/** Returns the duration of the planned step in whole microseconds, or 0 if time is not simulated. */
export function stepUs(): f64 {
  const kind = settingI(Config.TimingKind);
  if (kind === TimingKind.None) return 0;
  if (kind === TimingKind.Constant) return whole(setting(Config.LinearBaseUs));
  let us: f64;
  if (kind === TimingKind.Linear) {
    us =
      setting(Config.LinearBaseUs) +
      setting(Config.LinearPrefillUs) * promptTokens +
      setting(Config.LinearDecodeUs) * decodes;
  } else {
    us = linear(promptTokens + decodes);
    let base: f64 = 0;
    if (promptTokens > 0) {
      base = setting(Config.PrefillBaseUs);
      us +=
        setting(Config.PrefillNewUs) * promptTokens +
        setting(Config.PrefillPrefixUs) * prefixTokens +
        setting(Config.PrefillPairsUs) * pairs;
    }
    if (decodes > 0) {
      const decodeBase = setting(Config.DecodeBaseUs);
      base = setting(Config.SharedBase) !== 0 ? Math.max(base, decodeBase) : base + decodeBase;
      us += setting(Config.DecodeSeqUs) * decodes + setting(Config.DecodeCtxUs) * context;
    }
    us = setting(Config.Scale) * (us + base) + setting(Config.OverheadUs);
  }
  return whole(us);
}

/** Rounds, but to at least 1 µs, because the step computes something. */
function whole(us: f64): f64 {
  return Math.max(1, Math.floor(us + 0.5));
}

function linear(tokens: f64): f64 {
  if (points === 0) return 0;
  if (points === 1 || tokens <= linearTokens[0]) return linearUs[0];
  let low = 0;
  let high = points - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (linearTokens[middle] <= tokens) low = middle;
    else high = middle;
  }
  const from = linearTokens[low];
  const fromUs = linearUs[low];
  return fromUs + ((linearUs[high] - fromUs) * (tokens - from)) / (linearTokens[high] - from);
}
