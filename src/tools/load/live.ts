/** Makes the status line that a terminal shows during a run. */

import { percentile } from "../report/distribution.ts";
import { firstLatency } from "./late-sends.ts";
import type { RequestRecord } from "./requests/types.ts";
import type { LoadRun } from "./run.ts";

/** Microseconds before now that the percentiles cover. */
const BACK_US = 10e6;

export interface Progress extends Readonly<Pick<LoadRun, "sent" | "running" | "failed" | "records">> {
  readonly elapsedUs: number;
  /** Number of chunks with output so far. */
  readonly outputs: number;
}

export class LiveLine {
  #outputs = 0;
  #elapsedUs = 0;

  line({ elapsedUs, sent, running, failed, outputs, records }: Progress): string {
    const perSecond = ((outputs - this.#outputs) / Math.max(1, elapsedUs - this.#elapsedUs)) * 1e6;
    this.#outputs = outputs;
    this.#elapsedUs = elapsedUs;
    const recent: RequestRecord[] = [];
    for (let i = records.length - 1; i >= 0 && records[i]!.endUs > elapsedUs - BACK_US; i--) recent.push(records[i]!);
    const good = recent.filter((r) => r.failure === null);
    const name = firstLatency(good);
    const latencies = good.map((r) => ((name === "TTFT" ? r.firstUs : r.lastUs) - r.sendUs) / 1000);
    const delays = recent.filter((r) => r.sendUs >= 0).map((r) => (r.sendUs - r.intendedUs) / 1000);
    const done = sent - running - failed;
    return [
      `${(elapsedUs / 1e6).toFixed(0)} s`,
      `${sent} sent, ${running} running, ${done} done, ${failed} failed`,
      `${perSecond.toFixed(0)} tok/s`,
      `${name} p50 ${at(latencies, 50)} p99 ${at(latencies, 99)} ms`,
      `sched delay p99 ${at(delays, 99)} ms`,
    ].join(" | ");
  }
}

function at(values: readonly number[], q: number): string {
  return values.length > 0 ? percentile(Float64Array.from(values).sort(), q).toFixed(1) : "-";
}
