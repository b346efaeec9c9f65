/** How is a server told how long its steps take, and how they stray? */

import type { StepNoise } from "../../engine/config/step-times.ts";
import { durations, TIMING_FORMS } from "../../engine/timing/parse-timing.ts";
import { DEFAULT_PRESET } from "../../engine/timing/presets.ts";
import { freeText, number, ourGroup, readable } from "./option.ts";
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

export const stepOptions = ourGroup("Stand-in", {
  timing: {
    ...freeText("TIMING", TIMING_FORMS),
    default: `the preset measured for the model, else ${DEFAULT_PRESET}`,
    about: `How long steps take: ${TIMING_FORMS}. A preset also sets the defaults of its model and GPU. Both also say how long a request takes before it waits, as in PRESET:overhead=10ms or linear:…,overhead=10ms: docs/timing.md.`,
  },
  jitter: {
    ...number(0, 2),
    default: "0",
    about: "Each step is multiplied by a log-normal factor of mean 1; X is the deviation of its logarithm.",
  },
  "overhead-jitter": {
    ...number(0, 1),
    default: "0",
    about:
      "What a request waits before the queue is multiplied by a normal factor of mean 1 with this deviation, 0.3 to 1.7 at most.",
  },
  "jitter-tail": {
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
    ...readable(
      "every=TIME,for=TIME",
      "every=TIME,for=TIME, as in every=10s,for=200ms; up to an hour, the pause shorter than its interval",
      pauseOf,
    ),
    default: "none",
    about: "A pause in regular intervals: the step that runs then takes so much longer.",
  },
  speed: {
    ...number(0.001, 1000),
    default: "1",
    about: "The engine is so many times as fast: times of steps, pauses and request overhead are divided by it.",
  },
});

const STRAYING = ["jitter", "overhead-jitter", "jitter-tail", "slow-steps", "speed"] as const;

/** What of it the engine's configuration has, or what is wrong. `said` tells where a value came from. */
export function stepConfig(
  values: ServeValues,
  isTimed: boolean,
  at: (option: string) => string,
): { readonly noise?: StepNoise; readonly speed?: number } | { readonly error: string } {
  const { jitter, "overhead-jitter": overhead, "jitter-tail": heavy, "slow-steps": slow, speed } = values;
  const asked = STRAYING.find((name) => values[name] !== undefined);
  if (!isTimed && asked !== undefined)
    return { error: `${at(asked)}: with --timing none steps have no times; it takes another --timing` };
  const tail = heavy === undefined ? undefined : tailOf(heavy);
  const pause = slow === undefined ? undefined : pauseOf(slow);
  const noise: StepNoise = {
    ...(jitter ? { jitterSigma: jitter } : {}),
    ...(overhead ? { overheadSigma: overhead } : {}),
    ...(tail ? { tail } : {}),
    ...(pause ? { pause } : {}),
  };
  return {
    ...(Object.keys(noise).length > 0 ? { noise } : {}),
    ...(speed !== undefined && speed !== 1 ? { speed } : {}),
  };
}
