/** Translates the latency keys of llm-d-inference-sim into `--timing` and other options of ours. */
import { goDurationUs } from "../../base/go-duration.ts";
import { type UsageError, wrongValue } from "../options/given.ts";

/** Values that the user wrote for a key, and the place of the key, for messages. */
export interface KeyInput {
  readonly texts: readonly string[];
  readonly where: string;
}
type KeyReader = (key: string) => KeyInput | undefined;

export interface CompatTiming {
  readonly timing: string;
  /** Values of the other options that set times, by option, each with its place. */
  readonly spread: Readonly<Record<string, readonly [text: string, where: string]>>;
  readonly where: string;
  readonly notices: readonly string[];
}

const DURATION = "a duration such as 100ms or 1.5s, or milliseconds as a bare number";

/**
 * Parses a duration like the simulator's flags, where a whole number without a unit counts milliseconds. Undefined: the text is
 * not a duration.
 */
export function durationUs(text: string): number | undefined {
  return /^\d+$/.test(text) ? Number(text) * 1000 : goDurationUs(text);
}

/** Error for a value of a key that cannot be used. */
class InvalidValue extends Error {}

/** Throws an `InvalidValue` whose message names the place, the wrong value and the accepted values. */
export function unreadable(where: string, takes: string, given: string): never {
  throw new InvalidValue(wrongValue(where, takes, given).error);
}

/** Returns the result of `read`. If `read` throws an `InvalidValue`, returns its message as a usage error. */
export function orError<T>(read: () => T): T | UsageError {
  try {
    return read();
  } catch (error) {
    if (error instanceof InvalidValue) return { error: error.message };
    throw error;
  }
}

/** Returns a duration in microseconds, or 0 if the key is not set. Throws `InvalidValue`. */
export function durationOf(said: KeyInput | undefined): number {
  if (said === undefined) return 0;
  return durationUs(said.texts[0] ?? "") ?? unreadable(said.where, DURATION, said.texts.join(" "));
}

const LATENCY = "kv-cache-transfer-latency";

/**
 * Translates the simulator's latency calculators. `latency-calculator` selects a calculator. If that key is unset, a set
 * time-to-first-token selects the constant calculator. A calculator has a constant time to first token, or an overhead and a
 * time per prompt token. Each calculator also has a factor by which steps slow down with the number of running sequences.
 * Throws `InvalidValue`.
 */
export function compatTiming(asked: KeyReader, maxNumSeqs: number): CompatTiming {
  const us = (key: string) => durationOf(asked(key));
  const ttftUs = us("time-to-first-token");
  const itlUs = us("inter-token-latency");
  const overheadUs = us("prefill-overhead");
  const tokenUs = us("prefill-time-per-token");
  const isConstant = calculator(asked) === "constant" || (calculator(asked) === "" && ttftUs > 0);
  const factor = loadFactor(asked);
  const where =
    [
      "time-to-first-token",
      "inter-token-latency",
      "prefill-overhead",
      "prefill-time-per-token",
      "time-factor-under-load",
    ]
      .map((key) => asked(key)?.where)
      .find((one) => one !== undefined) ?? "the latencies of llm-d-inference-sim";

  atMost(us("time-to-first-token-std-dev"), ttftUs, "time-to-first-token", asked);
  atMost(us("inter-token-latency-std-dev"), itlUs, "inter-token-latency", asked);
  const prefill = isConstant ? { overheadUs: ttftUs, tokenUs: 0 } : { overheadUs, tokenUs };
  if (itlUs === 0 && prefill.overheadUs === 0 && prefill.tokenUs === 0)
    return { timing: "none", spread: transfer(asked, us, 0), where, notices: [] };
  // A step takes at least one microsecond, because the engine's clock has no finer resolution.
  const stepUs = Math.max(1, itlUs);
  // The simulator's time to first token includes the step of the prompt, which takes stepUs in our engine.
  const beforeUs = Math.max(0, prefill.overheadUs - stepUs);
  const deviates = isConstant ? "time-to-first-token-std-dev" : "prefill-time-std-dev";
  const deviationUs = us(deviates);
  const spread = {
    ...transfer(asked, us, stepUs),
    ...(beforeUs > 0 ? share("overhead-jitter", deviationUs / beforeUs, asked(deviates)) : {}),
    ...share("jitter", logarithm(us("inter-token-latency-std-dev") / itlUs), asked("inter-token-latency-std-dev")),
  };
  const notices = [
    ...(deviationUs > 0 ? [strays(asked(deviates)!.where, beforeUs, isConstant)] : []),
    ...(itlUs === 0 ? ["inter-token-latency 0: tokens are sent as fast as the machine can"] : []),
    ...(factor > 1
      ? [`time-factor-under-load ${factor}: steps grow with the sequences in them, first tokens do not`]
      : []),
  ];
  if (isConstant && factor === 1)
    return { timing: `constant:ttft=${prefill.overheadUs}us,itl=${Math.ceil(stepUs)}us`, spread, where, notices };
  const perSequenceUs = maxNumSeqs > 1 ? (stepUs * (factor - 1)) / (maxNumSeqs - 1) : 0;
  const parts = {
    base: Math.max(1, stepUs - perSequenceUs),
    prefill: prefill.tokenUs,
    decode: perSequenceUs,
    overhead: beforeUs,
  };
  const text = Object.entries(parts).map(([name, value]) => `${name}=${Number(value.toFixed(6))}us`);
  return { timing: `linear:${text.join(",")}`, spread, where, notices };
}

/**
 * Translates the times of KV cache transfers. Returns them in any case, because a request may ask for a transfer even if no
 * flag is set.
 */
function transfer(asked: KeyReader, us: (key: string) => number, stepUs: number): CompatTiming["spread"] {
  const latencyUs = us(LATENCY);
  atMost(us(`${LATENCY}-std-dev`), latencyUs, LATENCY, asked);
  const how = calculator(asked);
  const isConstant = how === "constant" || (how === "" && latencyUs > 0);
  const [key, deviates] = isConstant
    ? [LATENCY, `${LATENCY}-std-dev`]
    : ["kv-cache-transfer-time-per-token", "kv-cache-transfer-time-std-dev"];
  const text = `${isConstant ? "base" : "token"}=${us(key)}us,deviation=${us(deviates)}us,step=${stepUs}us`;
  return { "kv-transfer-time": [text, asked(key)?.where ?? "the transfer times of llm-d-inference-sim"] };
}

function calculator(asked: KeyReader): "" | "constant" | "per-token" {
  const said = asked("latency-calculator");
  const text = said?.texts[0] ?? "";
  if (text === "" || text === "constant" || text === "per-token") return text;
  throw new InvalidValue(`${said!.where}: takes constant or per-token, not "${text}"`);
}

function loadFactor(asked: KeyReader): number {
  const said = asked("time-factor-under-load");
  if (said === undefined) return 1;
  const factor = Number(said.texts[0]);
  if (Number.isFinite(factor) && factor >= 1) return factor;
  throw new InvalidValue(`${said.where}: takes a number of at least 1, not "${said.texts.join(" ")}"`);
}

function atMost(deviationUs: number, meanUs: number, of: string, asked: KeyReader): void {
  if (deviationUs > 0.3 * meanUs)
    throw new InvalidValue(
      `${asked(`${of}-std-dev`)!.where}: takes at most 30 % of ${of}, which is ${meanUs / 1000} ms`,
    );
}

/**
 * Returns the standard deviation of a log-normal factor's logarithm. The factor has the mean 1 and the standard deviation
 * `deviation`.
 */
const logarithm = (deviation: number) => Math.sqrt(Math.log1p(deviation ** 2));

function share(option: string, deviation: number, said: KeyInput | undefined): CompatTiming["spread"] {
  return said === undefined || !(deviation > 0) ? {} : { [option]: [Math.min(1, deviation).toFixed(6), said.where] };
}

function strays(where: string, beforeUs: number, isConstant: boolean): string {
  if (beforeUs === 0) return `${where}: has no effect, because the prompt takes only its step`;
  return isConstant
    ? `${where}: varies only the wait before the first step; that step varies like all steps`
    : `${where}: varies prefill-overhead, not the time per prompt token`;
}
