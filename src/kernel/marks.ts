/** Notes the long work of a thread, so that a late step is explained by the work that ran when it was due. */

import type { Clock } from "../base/clock.ts";
import { Cause, type Causes, type ProcessorTimes } from "../engine/lateness/causes.ts";
import type { Encoder } from "../text/tokens/types.ts";

/** Processor time of the calling thread and of its process, microseconds. */
export const thisHost: ProcessorTimes = {
  threadUs: () => sum(process.threadCpuUsage()),
  processUs: () => sum(process.cpuUsage()),
};

const sum = ({ user, system }: NodeJS.CpuUsage) => user + system;

const EVENT_LOOP_SAMPLE_US = 500_000;

export class Marks {
  constructor(
    readonly causes: Causes,
    readonly clock: Clock,
  ) {}

  /** Calls `work` and notes how long it took. */
  timed<T>(cause: Cause, work: () => T): T {
    const fromUs = this.clock.now();
    try {
      return work();
    } finally {
      this.causes.did(cause, fromUs, this.clock.now());
    }
  }

  log(write: (line: string) => void): (line: string) => void {
    return (line) => this.timed(Cause.Log, () => write(line));
  }

  /** Returns a function to call when another thread begins such work (true) and ends it (false). */
  aside(cause: Cause): (busy: boolean) => void {
    return (busy) => {
      if (busy) this.causes.began(cause, this.clock.now());
      else this.causes.ended(cause, this.clock.now());
    };
  }

  /** Awaits `pass`, then notes the rest of that turn of the event loop as work on a long prompt. */
  async beforeLongPrompt(pass: () => Promise<unknown>): Promise<void> {
    await pass();
    const fromUs = this.clock.now();
    // Called after the microtasks of this turn, so that work of the next turn is not counted.
    this.clock.turn(() => this.causes.did(Cause.Tokenization, fromUs, this.clock.now()));
  }

  /** Returns `timed` and `aside` for one cause. */
  of(cause: Cause): { timed<T>(work: () => T): T; busy(busy: boolean): void } {
    return { timed: (work) => this.timed(cause, work), busy: this.aside(cause) };
  }

  /** Wraps an encoder, so that the work of its thread is noted. */
  encoder(inner: Encoder): Encoder {
    const busy = this.aside(Cause.Tokenization);
    const marked =
      <Given extends unknown[], T>(work: (...given: Given) => Promise<T>) =>
      (...given: Given): Promise<T> => {
        busy(true);
        return work.apply(inner, given).finally(() => busy(false));
      };
    return {
      encode: marked(inner.encode),
      front: inner.front ?? 0,
      ...(inner.encodePacked && { encodePacked: marked(inner.encodePacked) }),
      ...(inner.encodeUtf8 && { encodeUtf8: marked(inner.encodeUtf8) }),
      // If it were missing, constrained answers would be written on the loop's thread.
      ...(inner.write && { write: marked(inner.write) }),
      ...(inner.short && { short: inner.short.bind(inner) }),
      close: () => inner.close(),
    };
  }
}

/** Calls `delayed` twice a second with the delay of the event loop, microseconds. */
export function sampleEventLoop(clock: Clock, delayed: (us: number) => void): void {
  const sample = (dueUs: number) =>
    clock.at(dueUs, () => {
      const nowUs = clock.now();
      delayed(nowUs - dueUs);
      sample(nowUs + EVENT_LOOP_SAMPLE_US);
    });
  sample(clock.now() + EVENT_LOOP_SAMPLE_US);
}
