/** Parses `--timing TEXT`. */

import type { Timing } from "../config/step-times.ts";
import { findPreset } from "./presets.ts";

export const TIMING_FORMS =
  "none, constant:ttft=200ms,itl=20ms, linear:base=4ms,prefill=0.02ms,decode=0.03ms, or a preset";

/** A longer step must be a mistake in the unit. */
const LIMIT_US = 3_600_000_000;

type TimingError = { readonly error: string };

/** Returns the timing, or an error in the text. */
export function parseTiming(text: string): Timing | TimingError {
  if (text === "none") return { kind: "none" };
  const colon = text.indexOf(":");
  const [form, rest] = colon < 0 ? [text, ""] : [text.slice(0, colon), text.slice(colon + 1)];
  if (form === "constant") {
    const read = durations(form, rest, ["ttft", "itl"]);
    if ("error" in read) return read;
    const { us } = read;
    const [ttftUs, itlUs] = [Math.round(us.ttft!), Math.round(us.itl!)];
    if (itlUs < 1) return { error: "itl must be at least 1us; for steps without time use none" };
    return { kind: "constant", ttftUs, itlUs };
  }
  if (form === "linear") {
    const read = durations(form, rest, ["base", "prefill", "decode"], ["overhead"]);
    if ("error" in read) return read;
    const { us } = read;
    if (us.base! < 1) return { error: "base must be at least 1us; for steps without time use none" };
    return { kind: "linear", baseUs: us.base!, prefillUs: us.prefill!, decodeUs: us.decode!, ...overhead(us) };
  }
  const preset = findPreset(form);
  if (preset === undefined) return { error: "not a preset" };
  if (colon < 0) return preset.timing;
  const read = durations("a preset", rest, [], ["overhead"]);
  return "error" in read ? read : { ...preset.timing, ...overhead(read.us) };
}

function overhead(us: Readonly<Record<string, number>>): { readonly requestOverheadUs?: number } {
  return us.overhead === undefined ? {} : { requestOverheadUs: us.overhead };
}

/** Parses `a=1ms,b=2us` to microseconds by name. Every name of `names` must occur once; names of `more` may be missing. */
export function durations(
  form: string,
  text: string,
  names: readonly string[],
  more: readonly string[] = [],
): TimingError | { readonly us: Record<string, number> } {
  const durationsUs: Record<string, number> = {};
  for (const part of text.split(",")) {
    const [name = "", duration = ""] = part.split("=", 2).map((side) => side.trim());
    if (!names.includes(name) && !more.includes(name))
      return { error: `${form} has ${[...names, ...more].join(", ")}, not "${name}"` };
    if (name in durationsUs) return { error: `${name} is given twice` };
    const us = durationUs(duration);
    if (us === undefined)
      return { error: `${name}: "${duration}" is not a duration; accepted: a number and us, ms or s, such as 20ms` };
    if (us > LIMIT_US) return { error: `${name}: ${duration} is longer than an hour` };
    durationsUs[name] = us;
  }
  const missing = names.find((name) => !(name in durationsUs));
  return missing ? { error: `${missing} is missing` } : { us: durationsUs };
}

/** Parses a duration. Refuses a bare number, because its unit is unclear. */
function durationUs(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?|\.\d+)\s*(us|µs|ms|s)$/.exec(text);
  if (!match) return undefined;
  const unitUs = match[2] === "s" ? 1_000_000 : match[2] === "ms" ? 1000 : 1;
  // Rounded to six decimals, so that 0.03ms is 30 and not 29.999999999999996.
  return Number((Number(match[1]) * unitUs).toFixed(6));
}
