/** Options of the times that engine steps take, and of the random variation of these times. */

import type { StepNoise } from "../../engine/config/step-times.ts";
import { durations, TIMING_FORMS } from "../../engine/timing/parse-timing.ts";
import { DEFAULT_PRESET } from "../../engine/timing/presets.ts";
import { ourServeGroup } from "./landing.ts";
import { firstGiven, freeText, number, readable, row } from "./option.ts";
import type { ServeValues } from "./serve-options.ts";

function tailOf(written: string): StepNoise["tail"] {
  const [, ...found] = /^share=([\d.]+),alpha=([\d.]+)$/.exec(written) ?? [];
  const [share, alpha] = found.map((digits) => number(0, 100, "min").read([digits]));
  if (share === undefined || alpha === undefined || share > 1 || alpha <= 1) return undefined;
  return { share, alpha };
}

function pauseOf(written: string): StepNoise["pause"] {
  const read = durations("a pause", written, ["every", "for"]);
  if ("error" in read) return undefined;
  const [everyUs, forUs] = [Math.round(read.us.every!), Math.round(read.us.for!)];
  return forUs >= 1 && forUs < everyUs ? { everyUs, forUs } : undefined;
}

export const stepOptions = ourServeGroup("Stand-in", {
  timing: row(
    `Source of step times: ${TIMING_FORMS}. A preset also sets the defaults of its model and GPU. overhead sets the time of a request before it reaches the queue, as in PRESET:overhead=10ms or linear:…,overhead=10ms: docs/explanation/timing.md.`,
    {
      feeds: "engine.timing",
      ...freeText("TIMING", TIMING_FORMS),
      default: `the preset measured for the model, else ${DEFAULT_PRESET}`,
    },
  ),
  jitter: row("Multiply each step time by a log-normal factor with mean 1. X: standard deviation of its logarithm.", {
    lands: "engine.noise.jitterSigma",
    as: (sigma: number) => sigma || undefined,
    ...number(0, 2),
    default: "0",
  }),
  "overhead-jitter": row(
    "Multiply each request's overhead before the queue by a normal factor with mean 1 and this standard deviation, cut to 0.3 to 1.7.",
    { lands: "engine.noise.overheadSigma", as: (sigma: number) => sigma || undefined, ...number(0, 1), default: "0" },
  ),
  "jitter-tail": row("Multiply this share of the steps by a Pareto factor (1 to 1000) with exponent alpha.", {
    lands: "engine.noise.tail",
    as: tailOf,
    ...readable(
      "share=X,alpha=Y",
      "share=X,alpha=Y, as in share=0.01,alpha=2; a share above 0 to 1, an exponent above 1 to 100",
      tailOf,
    ),
  }),
  "slow-steps": row("Pause the engine at regular intervals: the step that runs then takes this much longer.", {
    lands: "engine.noise.pause",
    as: pauseOf,
    ...readable(
      "every=TIME,for=TIME",
      "every=TIME,for=TIME, as in every=10s,for=200ms; up to an hour, the pause shorter than its interval",
      pauseOf,
    ),
  }),
  speed: row("Factor by which the engine is faster: divides the times of steps, pauses and request overhead.", {
    lands: "engine.speed",
    as: (speed: number) => (speed === 1 ? undefined : speed),
    ...number(0.001, 1000),
    default: "1",
  }),
});

const NEEDS_STEP_TIMES = ["jitter", "overhead-jitter", "jitter-tail", "slow-steps", "speed"] as const;

/**
 * Returns an error message if an option changes step times although --timing none sets none, else undefined. `at`: returns the
 * place where the user set an option.
 */
export function strayingNothing(values: ServeValues, at: (option: string) => string): string | undefined {
  const asked = firstGiven(values, NEEDS_STEP_TIMES);
  return asked && `${at(asked)}: no effect with --timing none, whose steps take no time; choose another --timing`;
}
