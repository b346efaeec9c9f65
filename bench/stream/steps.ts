/** Computes the punctuality of steps from a log of steps, and that of streams from the client's times. */

import type { StreamTimes } from "../lib/client.ts";
import { quantile } from "../lib/numbers.ts";

/** Times at both ends of a run that do not count, because streams still begin or already end. */
const EDGE_US = { start: 2_500_000, end: 500_000 };
/** If two steps are further apart, a new run begins. */
const PAUSE_US = 1_000_000;

export interface Steps {
  readonly steps: number;
  readonly lateP50Us: number;
  readonly lateP99Us: number;
  readonly lateMaxUs: number;
  readonly writeP50Us: number;
  readonly writeP99Us: number;
  readonly writeMaxUs: number;
}

export interface Step {
  readonly dueUs: number;
  readonly startUs: number;
  readonly endUs: number;
}

/**
 * Returns the steps of the run that spent the most time writing. `rows`: three numbers per step, when it was due, when it
 * started and when its writing ended.
 */
export const runOf = (rows: Float64Array): Step[] => stepsOf(busiest(rows));

/** Returns the due times between which steps of that run count. */
export function measuredRange(rows: Float64Array): readonly [firstUs: number, lastUs: number] {
  const run = busiest(rows);
  return [run[0]! + EDGE_US.start, run.at(-3)! - EDGE_US.end];
}

/** Summarizes the run with the most writing, without its edges. */
export function mainRun(rows: Float64Array): Steps {
  const [first, last] = measuredRange(rows);
  const steps = runOf(rows).filter(({ dueUs }) => dueUs >= first && dueUs <= last);
  if (steps.length === 0) throw new Error("no steps were logged: does the server know UNDERSTUDY_STEP_LOG?");
  const late = steps.map(({ dueUs, startUs }) => startUs - dueUs);
  const write = steps.map(({ startUs, endUs }) => endUs - startUs);
  return {
    steps: steps.length,
    ...{ lateP50Us: quantile(late, 0.5), lateP99Us: quantile(late, 0.99), lateMaxUs: quantile(late, 1) },
    ...{ writeP50Us: quantile(write, 0.5), writeP99Us: quantile(write, 0.99), writeMaxUs: quantile(write, 1) },
  };
}

/** Splits a log at its pauses. Returns the rows of each run, in order. */
export function runsIn(rows: Float64Array): Float64Array[] {
  const runs: Float64Array[] = [];
  for (let from = 0, at = 0; at < rows.length; at += 3) {
    if (at + 3 < rows.length && rows[at + 3]! - rows[at]! <= PAUSE_US) continue;
    runs.push(rows.subarray(from, at + 3));
    from = at + 3;
  }
  return runs;
}

function stepsOf(run: Float64Array): Step[] {
  return Array.from({ length: run.length / 3 }, (_, i) => {
    const [dueUs, startUs, endUs] = run.subarray(3 * i, 3 * i + 3) as unknown as [number, number, number];
    return { dueUs, startUs, endUs };
  });
}

/** Returns the rows of the run in which most time was spent writing. */
function busiest(rows: Float64Array): Float64Array {
  const writingUs = (run: Float64Array) => stepsOf(run).reduce((sum, { startUs, endUs }) => sum + endUs - startUs, 0);
  const runs = runsIn(rows).map((run) => [run, writingUs(run)] as const);
  return runs.reduce((best, run) => (run[1] > best[1] ? run : best), [new Float64Array(), -1] as const)[0];
}

/**
 * Returns the largest |(last write − first due) ÷ (last due − first due) − 1| of all complete streams of `tokens` tokens. Last
 * writes are the client's times. The difference between its clock and that of the log follows from the last write of all.
 */
export function stretch(streams: readonly StreamTimes[], rows: Float64Array, tokens: number): number {
  const steps = runOf(rows);
  const [before, final] = steps.slice(-2) as [Step, Step];
  const ends = streams.filter(({ complete }) => complete).map(({ lastUs }) => lastUs);
  const offsetUs = Math.max(...ends) - final.endUs;
  // The client may take the time of the last write a little late, but by less than a quarter of a step.
  const slackUs = (final.dueUs - before.dueUs) / 4;
  return ends.reduce((worst, end) => {
    const endUs = end - offsetUs;
    const last = Math.max(
      0,
      steps.findLastIndex(({ startUs }) => startUs <= endUs + slackUs),
    );
    const firstDueUs = steps[Math.max(0, last - (tokens - 1))]!.dueUs;
    return Math.max(worst, Math.abs((endUs - firstDueUs) / (steps[last]!.dueUs - firstDueUs) - 1));
  }, 0);
}
