/** What do a log of steps and the client's stamps say about punctuality? */
import { quantile } from "../lib/numbers.ts";
import type { StreamTimes } from "../lib/reader.ts";

/** Left out at both ends of a run: streams still come, or already go. */
const EDGE_US = { start: 2_500_000, end: 500_000 };
/** A longer pause between two steps separates two runs. */
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

/** The run with the most writing in a log of triples (due, start, end of writing), without its edges. */
export function mainRun(rows: Float64Array): Steps {
  const [from, to] = busiest(rows);
  const [first, last] = [rows[from]! + EDGE_US.start, rows[to - 3]! - EDGE_US.end];
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

/** First place and end of the rows between two pauses in which most time was spent writing. */
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
 * The worst |(last write − first due) ÷ (last due − first due) − 1| over complete streams of `tokens` tokens. Steps are due
 * on a grid of `periodUs`; where it lies follows from the stamps: they fill a part of the period, right after each due time.
 */
export function stretch(streams: readonly StreamTimes[], periodUs: number, tokens: number): number {
  const times = streams.filter(({ complete }) => complete);
  const dueUs = gridStart(
    times.flatMap(({ firstUs, lastUs }) => [firstUs % periodUs, lastUs % periodUs]),
    periodUs,
  );
  const worst = times.map(({ firstUs, lastUs }) => {
    const firstDueUs = firstUs - ((firstUs - dueUs + periodUs) % periodUs);
    return Math.abs((lastUs - firstDueUs) / ((tokens - 1) * periodUs) - 1);
  });
  return Math.max(...worst);
}

/** The phase after the longest part of the period in which nothing arrived. */
function gridStart(phases: readonly number[], periodUs: number): number {
  const sorted = Float64Array.from(phases).sort();
  let [longest, start] = [sorted[0]! + periodUs - sorted.at(-1)!, sorted[0]!];
  for (let i = 1; i < sorted.length; i++) {
    const empty = sorted[i]! - sorted[i - 1]!;
    if (empty > longest) [longest, start] = [empty, sorted[i]!];
  }
  return start;
}
