// How long does a step take? From sums that the scheduler keeps while it plans: O(1), rounded once per step, half up.
// Forms and sources: src/config/types.ts (Timing); the formula of step-time presets is documented in src/engine/timing/profiles/.
import { columnF } from "./column";
import { setAddress, setting, settingI, setWord } from "./header";
import { Config, LINEAR_POINTS_MOST, TimingKind, Word } from "./layout";

/** New prompt tokens, their prefixes, their pairs, decoding sequences, their context. */
let promptTokens: f64 = 0;
let prefixTokens: f64 = 0;
let pairs: f64 = 0;
let decodes: f64 = 0;
let context: f64 = 0;

let points: i32 = 0;
let linearTokens = changetype<StaticArray<f64>>(0);
let linearUs = changetype<StaticArray<f64>>(0);

export function takeTiming(): void {
  linearTokens = columnF(LINEAR_POINTS_MOST);
  linearUs = columnF(LINEAR_POINTS_MOST);
  readTiming();
}
/** The table's length: it is filled afterwards. */
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

/** What the plan holds, for those who look at it. */
export function publishSums(): void {
  setWord(Word.PlanDecodes, <i32>decodes);
  setWord(Word.PlanPrefillTokens, <i32>promptTokens);
}

/** `n` new prompt tokens after `prefix` computed ones; `sign` -1 takes them back. */
export function addPrefill(n: i32, prefix: i32, sign: f64): void {
  const tokens = <f64>n;
  promptTokens += sign * tokens;
  prefixTokens += sign * <f64>prefix;
  pairs += sign * tokens * (<f64>prefix + (tokens + 1) * 0.5);
}

/** `sequences` decodes that attend to `tokens` cached tokens together. */
export function addDecodes(sequences: i32, tokens: f64): void {
  decodes += <f64>sequences;
  context += tokens;
}

/** Duration of the planned step in whole microseconds; 0 where time is not simulated. */
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

/** A step that computes something takes a microsecond at least. */
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
