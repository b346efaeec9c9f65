/** States which long work of a server waits for a gap between steps, how long that work takes, and how long it may wait. */
import { edenGC } from "bun:jsc";
import type { Clock } from "../base/clock.ts";
import { Garbage } from "../base/time/garbage.ts";
import { SpareTime } from "../base/time/spare-time.ts";
import { Cause } from "../engine/lateness/causes.ts";
import type { Marks } from "./marks.ts";

/** Duration of reading a body of half a megabyte, handing it to the encoder or hashing its prompt. */
const LONG_WORK_US = 6000;
const LONG_WORK_PATIENCE_US = 200_000;
/** Duration of writing a piece of an answer about the last requests. */
const PIECE_US = 500;
const PIECE_PATIENCE_US = 20_000;
/** Reserved for a full collection of garbage. With 10,000 open streams it takes 25 to 45 ms. */
const COLLECTION_US = 60_000;
const COLLECTION_PATIENCE_US = 2_000_000;

export interface Gaps {
  /** Resolves when the thread has time for long work. */
  readonly long: SpareTime;
  /** Resolves when the thread has time for a piece of work of less than a millisecond. */
  readonly pieces: SpareTime;
  /** Collects garbage in gaps, so that no step is late because of it. */
  readonly garbage: Garbage;
}

export function gapsOf(clock: Clock, marks: Marks): Gaps {
  const long = new SpareTime(clock, LONG_WORK_US, LONG_WORK_PATIENCE_US);
  const collect = (how: () => unknown): number => {
    const fromUs = clock.now();
    marks.timed(Cause.Collection, () => void how());
    return clock.now() - fromUs;
  };
  const garbage = new Garbage(new SpareTime(clock, COLLECTION_US, COLLECTION_PATIENCE_US), long, {
    young: () => collect(edenGC),
    whole: () => collect(() => Bun.gc(true)),
    concurrent: process.env.BUN_JSC_useConcurrentGC === "0" ? null : () => Bun.gc(false),
    residentBytes: () => process.memoryUsage.rss(),
  });
  return { long, pieces: new SpareTime(clock, PIECE_US, PIECE_PATIENCE_US), garbage };
}
