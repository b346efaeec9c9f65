/** How long does somebody think before the next turn? */
import type { Random } from "../../../base/random.ts";

export type ThinkTime =
  | { readonly kind: "constant" | "exponential"; readonly meanUs: number }
  | { readonly kind: "uniform"; readonly leastUs: number; readonly mostUs: number }
  /** `sigma` of the logarithm; the mean is that of the times. */
  | { readonly kind: "lognormal"; readonly meanUs: number; readonly sigma: number };

export const THINK_FORM = "2s, constant:2s, exponential:2s, uniform:1s-5s or lognormal:2s,0.8 (mean and sigma)";
/** A day: nobody waits longer in a benchmark. */
const LONGEST_US = 86_400e6;
const UNITS: Readonly<Record<string, number>> = { us: 1, ms: 1e3, s: 1e6, m: 60e6 };

/** Undefined where the text is none of THINK_FORM. */
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

/** Whole microseconds, at most a day. */
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
