/**
 * Decides whether a client's work grows faster than the bytes that it reads. Compares three runs of a case: without the
 * disturbance, with some of it, and with more.
 */
import type { ClientCost } from "./seen.ts";

/** Cost of one run, and the bytes that were sent in it. */
export interface MeasuredRun {
  readonly bytes: number;
  readonly cost: ClientCost | null;
}

/** Factor by which CPU time may exceed growth in proportion to the bytes. */
const SLACK = 1.5;
/** Milliseconds of CPU below which nothing is reported. */
const CPU_LEAST_MS = 250;
const NOISE_MS = 40;
/** Memory that a client may keep whatever it reads, and multiples of the bytes read that it may keep in addition. */
const MEMORY_BASE = 64 * 2 ** 20;
const MEMORY_TIMES = 16;

/** Returns the verdict and its reason. Null if the growth is accepted, or if a run was not measured. */
export function growthVerdict(
  clean: MeasuredRun,
  small: MeasuredRun,
  large: MeasuredRun,
): ["slow" | "memory", string] | null {
  if (clean.cost === null || small.cost === null || large.cost === null) return null;
  const more = large.cost.peakBytes - clean.cost.peakBytes;
  if (more > MEMORY_BASE + MEMORY_TIMES * large.bytes)
    return ["memory", `The client took ${mib(more)} more memory for an answer of ${mib(large.bytes)}.`];
  const [some, much] = [small.cost.cpuMs - clean.cost.cpuMs, large.cost.cpuMs - clean.cost.cpuMs];
  const times = (large.bytes - clean.bytes) / (small.bytes - clean.bytes);
  const isSlow = much > CPU_LEAST_MS && much > SLACK * times * Math.max(some, NOISE_MS);
  return isSlow
    ? [
        "slow",
        `The client took ${ms(much)} of CPU, and ${ms(some)} for an answer that is ${times.toFixed(1)} times smaller.`,
      ]
    : null;
}

const mib = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
const ms = (value: number) => `${Math.round(value)} ms`;
