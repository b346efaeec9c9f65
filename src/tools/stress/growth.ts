/** Does a client's work grow faster than what it reads? Three runs of a case tell: with nothing, with some, with more of the same. */
import type { SeenCost } from "./seen.ts";

/** What one run cost, and the bytes that were sent in it. */
export interface MeasuredRun {
  readonly bytes: number;
  readonly cost: SeenCost | null;
}

/** Work that grows as fast as bytes may vary so much more. */
const SLACK = 1.5;
/** Less is nothing to complain of. */
const CPU_LEAST_MS = 250;
const NOISE_MS = 40;
/** A reader may keep so much whatever it reads, and so many times what it reads. */
const MEMORY_BASE = 64 * 2 ** 20;
const MEMORY_TIMES = 16;

/** null: it grows as it should, or nobody has measured it. */
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
