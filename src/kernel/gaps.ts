/** Which long work of a server waits for a gap between steps, how long such work takes, and how long it may be put off? */
import { edenGC } from "bun:jsc";
import type { Clock } from "../base/clock.ts";
import { Garbage, SpareTime } from "../base/time/spare-time.ts";
import { Cause } from "../engine/lateness/causes.ts";
import type { Marks } from "./marks.ts";

/** Reading a body of half a megabyte, giving it to the encoder or hashing its prompt. */
const LONG_WORK_US = 6000;
const LONG_WORK_PATIENCE_US = 200_000;
/** Making a piece of an answer about the last requests. */
const PIECE_US = 500;
const PIECE_PATIENCE_US = 20_000;
/** A whole collection with 10,000 open streams takes 25 to 45 ms. */
const COLLECTION_US = 60_000;
const COLLECTION_PATIENCE_US = 2_000_000;

export interface Gaps {
  /** Settles when the thread has time for long work. */
  readonly long: SpareTime;
  /** Likewise for a piece of less than a millisecond. */
  readonly pieces: SpareTime;
  /** Has garbage collected where no step is late for it. */
  readonly garbage: Garbage;
}

export function gapsOf(clock: Clock, marks: Marks): Gaps {
  const long = new SpareTime(clock, LONG_WORK_US, LONG_WORK_PATIENCE_US);
  const collect = (how: () => unknown) => marks.timed(Cause.Collection, () => void how());
  const whole = () => collect(() => Bun.gc(true));
  let youngWaits = false;
  const young = () => {
    youngWaits = false;
    collect(edenGC);
  };
  const garbage = new Garbage(new SpareTime(clock, COLLECTION_US, COLLECTION_PATIENCE_US), (what) => {
    if (what === "whole") whole();
    else if (what !== "young") void long.pass().then(whole);
    // Bodies are young when they become garbage: a collection of what is new finds them, and takes a tenth of the time. It
    // takes longer the more is new, so it does not wait longer than until the next one. A burst of requests comes in few
    // turns of the event loop: behind this one there would be nothing left to keep small.
    else if (youngWaits || long.isThere) young();
    else {
      youngWaits = true;
      void long.pass().then(() => youngWaits && young());
    }
  });
  return { long, pieces: new SpareTime(clock, PIECE_US, PIECE_PATIENCE_US), garbage };
}
