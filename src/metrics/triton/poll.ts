/**
 * Samples GPU, CPU and pinned memory like Triton's polling thread, every half of `--metrics-interval-ms` (`metrics.cc`,
 * `StartPollingThread`); the values do not change between two polls. Here a scrape polls if the time has come, so
 * shares of time cover the time since the previous poll. Runs in the metrics thread.
 */
import { readFileSync } from "node:fs";
import type { Snapshot } from "../../engine/interface/types.ts";
import type { TritonIdentity } from "../ensemble/identity.ts";
import { MeterField } from "../ensemble/model-numbers.ts";

export interface Host {
  readonly cpuUtilization: number;
  readonly memoryTotalBytes: number;
  readonly memoryUsedBytes: number;
}
export interface EnginePoll {
  /** Share of the time in which a step ran. */
  readonly utilization: number;
  readonly aliveUs: number;
  readonly busyUs: number;
}
export interface PollResult {
  /** False before the first poll, which comes after the first half interval. All values are 0 until then. */
  readonly polled: boolean;
  readonly host: Host;
  readonly engines: readonly EnginePoll[];
}

export const NOTHING: Host = { cpuUtilization: 0, memoryTotalBytes: 0, memoryUsedBytes: 0 };

const REST: EnginePoll = { utilization: 0, aliveUs: 0, busyUs: 0 };

/** Measures the machine's CPU use between two samples. */
export class HostSampler {
  #cpu: readonly [busy: number, idle: number] = [0, 0];

  /** `read` returns a file of /proc, or throws. */
  constructor(private readonly read: (file: string) => string = (file) => readFileSync(`/proc/${file}`, "latin1")) {}

  /** Takes a sample. All values are 0 without /proc, as in the real server. */
  take(): Host {
    try {
      const [, user, nice, system, idle, iowait, irq, softirq, steal] = this.read("stat")
        .slice(0, 400)
        .split("\n", 1)[0]!
        .split(/\s+/)
        .map(Number) as number[];
      const [busyTicks, idleTicks] = [user! + nice! + system! + irq! + softirq! + steal!, idle! + iowait!];
      const [busy, rest] = [busyTicks - this.#cpu[0], idleTicks - this.#cpu[1]];
      this.#cpu = [busyTicks, idleTicks];
      const memory = this.read("meminfo");
      const bytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(memory)![1]) * 1024;
      const memoryTotalBytes = bytes("MemTotal");
      return {
        cpuUtilization: busy + rest > 0 ? busy / (busy + rest) : 0,
        memoryTotalBytes,
        memoryUsedBytes: memoryTotalBytes - bytes("MemAvailable"),
      };
    } catch {
      return NOTHING;
    }
  }
}

export class Poller {
  readonly #sampler: HostSampler;
  #turn = 0;
  #last: PollResult = { polled: false, host: NOTHING, engines: [] };

  /** `read` returns a file of /proc, or throws. */
  constructor(read?: (file: string) => string) {
    this.#sampler = new HostSampler(read);
  }

  take({ engines }: Snapshot, { intervalMs, several, cpu }: TritonIdentity): PollResult {
    const now = engines.map(({ meters, busyUs }) => ({ aliveUs: meters[MeterField.aliveUs] ?? 0, busyUs }));
    const turn = Math.floor(Math.max(0, ...now.map(({ aliveUs }) => aliveUs)) / (intervalMs * 500));
    if (turn === 0) return { polled: false, host: NOTHING, engines: now.map(() => REST) };
    if (turn === this.#turn && this.#last.engines.length === now.length) {
      return several ? { ...this.#last, engines: this.#last.engines.map(upToDate(now)) } : this.#last;
    }
    this.#turn = turn;
    const before = this.#last.engines;
    this.#last = {
      polled: true,
      host: cpu ? this.#sampler.take() : NOTHING,
      engines: now.map(({ aliveUs, busyUs }, index) => {
        const then = before[index] ?? REST;
        const share = aliveUs > then.aliveUs ? (busyUs - then.busyUs) / (aliveUs - then.aliveUs) : 0;
        return { utilization: Math.min(1, Math.max(0, share)), aliveUs, busyUs };
      }),
    };
    return this.#last;
  }
}

const pollers = new WeakMap<TritonIdentity, Poller>();

/** Polls with one poller per printed server. */
export function poll(snapshot: Snapshot, identity: TritonIdentity): PollResult {
  const poller = pollers.get(identity) ?? new Poller();
  pollers.set(identity, poller);
  return poller.take(snapshot, identity);
}

/** Replaces the times that only rise by current ones. Otherwise they could fall, because the processes poll at different times. */
const upToDate =
  (now: readonly { readonly aliveUs: number; readonly busyUs: number }[]) =>
  (engine: EnginePoll, index: number): EnginePoll => ({
    ...engine,
    ...now[index]!,
  });
