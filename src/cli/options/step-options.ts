/** The options of step times and of their random deviations. */

import type { StepNoise } from "../../engine/config/step-times.ts";
import { durations, TIMING_FORMS } from "../../engine/timing/parse-timing.ts";
import { DEFAULT_PRESET } from "../../engine/timing/presets.ts";
import { ourServeGroup } from "./landing.ts";
import { freeText, number, readable } from "./option.ts";
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
  timing: {
    feeds: "engine.timing",
    ...freeText("TIMING", TIMING_FORMS),
    default: `the preset measured for the model, else ${DEFAULT_PRESET}`,
    about: `How long steps take: ${TIMING_FORMS}. A preset also sets the defaults of its model and GPU. Both also say how long a request takes before it waits, as in PRESET:overhead=10ms or linear:…,overhead=10ms: docs/timing.md.`,
  },
  jitter: {
    lands: "engine.noise.jitterSigma",
    as: (sigma: number) => sigma || undefined,
    ...number(0, 2),
    default: "0",
    about: "Each step is multiplied by a log-normal factor of mean 1; X is the deviation of its logarithm.",
  },
  "overhead-jitter": {
    lands: "engine.noise.overheadSigma",
    as: (sigma: number) => sigma || undefined,
    ...number(0, 1),
    default: "0",
    about:
      "What a request waits before the queue is multiplied by a normal factor of mean 1 with this deviation, 0.3 to 1.7 at most.",
  },
  "jitter-tail": {
    lands: "engine.noise.tail",
    as: tailOf,
    ...readable(
      "share=X,alpha=Y",
      "share=X,alpha=Y, as in share=0.01,alpha=2; a share above 0 to 1, an exponent above 1 to 100",
      tailOf,
    ),
    default: "none",
    about:
      "So large a share of the steps is multiplied by a Pareto factor (at least 1, at most 1000) with this exponent.",
  },
  "slow-steps": {
    lands: "engine.noise.pause",
    as: pauseOf,
    ...readable(
      "every=TIME,for=TIME",
      "every=TIME,for=TIME, as in every=10s,for=200ms; up to an hour, the pause shorter than its interval",
      pauseOf,
    ),
    default: "none",
    about: "A pause in regular intervals: the step that runs then takes so much longer.",
  },
  speed: {
    lands: "engine.speed",
    as: (speed: number) => (speed === 1 ? undefined : speed),
    ...number(0.001, 1000),
    default: "1",
    about: "The engine is so many times as fast: times of steps, pauses and request overhead are divided by it.",
  },
});

const STRAYING = ["jitter", "overhead-jitter", "jitter-tail", "slow-steps", "speed"] as const;

/** The line of an error if an option changes step times that do not exist, or undefined. `at`: where an option was given. */
export function strayingNothing(values: ServeValues, at: (option: string) => string): string | undefined {
  const asked = STRAYING.find((name) => values[name] !== undefined);
  return asked && `${at(asked)}: with --timing none steps have no times; it takes another --timing`;
}
