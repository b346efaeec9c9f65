/** Computes the punctuality of steps from a log of steps, and that of streams from the client's times. */
import { quantile } from "../lib/numbers.ts";
import type { StreamTimes } from "../lib/reader.ts";

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
export function runOf(rows: Float64Array): Step[] {
  const [from, to] = busiest(rows);
  return Array.from({ length: (to - from) / 3 }, (_, i) => {
    const at = from + 3 * i;
    return { dueUs: rows[at]!, startUs: rows[at + 1]!, endUs: rows[at + 2]! };
  });
}

/** Returns the due times between which steps of that run count. */
export function measuredRange(rows: Float64Array): readonly [firstUs: number, lastUs: number] {
  const [from, to] = busiest(rows);
  return [rows[from]! + EDGE_US.start, rows[to - 3]! - EDGE_US.end];
}

/** Summarizes the run with the most writing, without its edges. */
export function mainRun(rows: Float64Array): Steps {
  const [from, to] = busiest(rows);
  const [first, last] = measuredRange(rows);
  const late: number[] = [];
  const write: number[] = [];
  for (let at = from; at < to; at += 3) {
    if (rows[at]! < first || rows[at]! > last) continue;
    late.push(rows[at + 1]! - rows[at]!);
    write.push(rows[at + 2]! - rows[at + 1]!);
  }
  if (late.length === 0) throw new Error("no steps were logged: does the server know UNDERSTUDY_STEP_LOG?");
  return {
    steps: late.length,
    lateP50Us: quantile(late, 0.5),
    lateP99Us: quantile(late, 0.99),
    lateMaxUs: quantile(late, 1),
    writeP50Us: quantile(write, 0.5),
    writeP99Us: quantile(write, 0.99),
    writeMaxUs: quantile(write, 1),
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

/** Returns the first index and the end of the run in which most time was spent writing. */
function busiest(rows: Float64Array): [from: number, to: number] {
  let best: [number, number] = [0, 0];
  let most = -1;
  for (let from = 0, at = 0, written = 0; at < rows.length; at += 3) {
    written += rows[at + 2]! - rows[at + 1]!;
    if (at + 3 < rows.length && rows[at + 3]! - rows[at]! <= PAUSE_US) continue;
    if (written > most) [best, most] = [[from, at + 3], written];
    [from, written] = [at + 3, 0];
  }
  return best;
}

/**
 * Returns the largest |(last write − first due) ÷ (last due − first due) − 1| of all complete streams of `tokens` tokens. Last
 * writes are the client's times. The difference between its clock and that of the log follows from the last write of all.
 */
export function stretch(streams: readonly StreamTimes[], rows: Float64Array, tokens: number): number {
  const [from, to] = busiest(rows);
  const ends = streams.filter(({ complete }) => complete).map(({ lastUs }) => lastUs);
  const offsetUs = Math.max(...ends) - rows[to - 1]!;
  // The client may take the time of the last write a little late, but by less than a quarter of a step.
  const slackUs = (rows[to - 3]! - rows[to - 6]!) / 4;
  let worst = 0;
  for (const end of ends) {
    const endUs = end - offsetUs;
    let last = to - 3;
    while (last > from && rows[last + 1]! > endUs + slackUs) last -= 3;
    const firstDueUs = rows[Math.max(from, last - 3 * (tokens - 1))]!;
    worst = Math.max(worst, Math.abs((endUs - firstDueUs) / (rows[last]! - firstDueUs) - 1));
  }
  return worst;
}
