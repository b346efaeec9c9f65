/** Keeps the latest steps of the engine in columns, for the charts. */

/** Facts of a step. Times are microseconds. */
export interface StepRecord {
  readonly plannedUs: number;
  readonly endUs: number;
  /** Computed tokens of prompts, and of answers. Their sum is at most the token budget. */
  readonly prefill: number;
  readonly decode: number;
  /** Generated tokens, the first ones of answers included. */
  readonly tokens: number;
  readonly preemptions: number;
  readonly running: number;
  readonly waiting: number;
  readonly blocksUsed: number;
}

const NAMES = [
  ...(["plannedUs", "endUs", "prefill", "decode", "tokens"] as const),
  ...(["preemptions", "running", "waiting", "blocksUsed"] as const),
];
/**
 * Number of steps that are kept. The charts show 15 s: at most 3,000 steps, because no step of the preset takes less than 5
 * ms.
 */
const STEPS = 4096;

export class StepHistory {
  /** Number of steps since the start. Step `n` is in row `n % size`. */
  count = 0;
  readonly size = STEPS;
  readonly columns = Object.fromEntries(NAMES.map((name) => [name, new Float64Array(STEPS)])) as Readonly<
    Record<keyof StepRecord, Float64Array>
  >;

  add(step: StepRecord): void {
    const row = this.count++ % STEPS;
    for (const name of NAMES) this.columns[name][row] = step[name];
  }

  /** Returns the number of the first kept step. */
  get first(): number {
    return Math.max(0, this.count - STEPS);
  }

  /** Returns a value of a kept step. */
  value(name: keyof StepRecord, step: number): number {
    return this.columns[name][step % STEPS]!;
  }
}
