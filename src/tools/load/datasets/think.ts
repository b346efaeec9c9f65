/** Think times: the pause before the next turn of a conversation. */
import type { Random } from "../../../base/random.ts";

export type ThinkTime =
  | { readonly kind: "constant" | "exponential"; readonly meanUs: number }
  | { readonly kind: "uniform"; readonly leastUs: number; readonly mostUs: number }
  /** `sigma`: standard deviation of the logarithm. `meanUs`: mean of the times themselves. */
  | { readonly kind: "lognormal"; readonly meanUs: number; readonly sigma: number };

export const THINK_FORM = "2s, constant:2s, exponential:2s, uniform:1s-5s or lognormal:2s,0.8 (mean and sigma)";
/** Longest pause: one day. */
const LONGEST_US = 86_400e6;
const UNITS: Readonly<Record<string, number>> = { us: 1, ms: 1e3, s: 1e6, m: 60e6 };

/** Parses a think time. Returns undefined if the text does not have a form of THINK_FORM. */
export function parseThinkTime(text: string): ThinkTime | undefined {
  const [, kind = "constant", rest = ""] = /^(?:([a-z]+):)?(.+)$/.exec(text) ?? [];
  if (kind === "uniform") {
    const [least, most] = rest.split("-").map(microseconds);
    if (least === undefined || most === undefined || least > most || rest.split("-").length !== 2) return undefined;
    return { kind, leastUs: least, mostUs: most };
  }
  const [mean = "", sigmaText, ...more] = rest.split(",");
  const meanUs = microseconds(mean);
  if (meanUs === undefined || more.length > 0) return undefined;
  if (kind === "lognormal") {
    const sigma = /^\d+(\.\d+)?$/.test(sigmaText ?? "") ? Number(sigmaText) : Number.NaN;
    return sigma <= 5 ? { kind, meanUs, sigma } : undefined;
  }
  return (kind === "constant" || kind === "exponential") && sigmaText === undefined ? { kind, meanUs } : undefined;
}

function microseconds(text: string): number | undefined {
  const [, value, unit = ""] = /^(\d+(?:\.\d+)?)(us|ms|s|m)$/.exec(text) ?? [];
  const us = Number(value) * (UNITS[unit] ?? Number.NaN);
  return us <= LONGEST_US ? us : undefined;
}

/** Draws a pause in whole microseconds, at most one day. */
export function thinkUs(think: ThinkTime, random: Random): number {
  return Math.round(Math.min(LONGEST_US, value(think, random)));
}

function value(think: ThinkTime, random: Random): number {
  const unit = () => random() / 2 ** 32;
  switch (think.kind) {
    case "constant":
      return think.meanUs;
    case "exponential":
      return -Math.log(1 - unit()) * think.meanUs;
    case "uniform":
      return think.leastUs + unit() * (think.mostUs - think.leastUs);
    case "lognormal": {
      const normal = Math.sqrt(-2 * Math.log(1 - unit())) * Math.cos(2 * Math.PI * unit());
      return think.meanUs * Math.exp(think.sigma * normal - think.sigma ** 2 / 2);
    }
  }
}
