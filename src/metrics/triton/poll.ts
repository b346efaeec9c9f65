/**
 * What does Triton's polling thread find? GPU, CPU and pinned memory, every half of `--metrics-interval-ms` (`metrics.cc`,
 * `StartPollingThread`); between two polls nothing of it moves. Here a scrape polls, when the time has come: what is a
 * share of time is one of the time since the poll before. Runs in the thread that prints.
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
export interface Polled {
  /** The first poll comes after the first half interval; all is 0 until then. */
  readonly polled: boolean;
  readonly host: Host;
  readonly engines: readonly EnginePoll[];
}

export const NOTHING: Host = { cpuUtilization: 0, memoryTotalBytes: 0, memoryUsedBytes: 0 };

const REST: EnginePoll = { utilization: 0, aliveUs: 0, busyUs: 0 };

/** How busy the machine is, between two looks. */
export class HostLook {
  readonly #read: (file: string) => string;
  #cpu: readonly [busy: number, idle: number] = [0, 0];

  /** `read` gives a file of /proc, or throws. */
  constructor(read: (file: string) => string = (file) => readFileSync(`/proc/${file}`, "latin1")) {
    this.#read = read;
  }

  /** All 0 where there is no /proc, as in the real server. */
  take(): Host {
    try {
      const [, user, nice, system, idle, iowait, irq, softirq, steal] = this.#read("stat")
        .slice(0, 400)
        .split("\n", 1)[0]!
        .split(/\s+/)
        .map(Number) as number[];
      const [busyTicks, idleTicks] = [user! + nice! + system! + irq! + softirq! + steal!, idle! + iowait!];
      const [busy, rest] = [busyTicks - this.#cpu[0], idleTicks - this.#cpu[1]];
      this.#cpu = [busyTicks, idleTicks];
      const memory = this.#read("meminfo");
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
  readonly #look: HostLook;
  #turn = 0;
  #last: Polled = { polled: false, host: NOTHING, engines: [] };

  /** `read` gives a file of /proc, or throws. */
  constructor(read?: (file: string) => string) {
    this.#look = new HostLook(read);
  }

  take({ engines }: Snapshot, { intervalMs, several, cpu }: TritonIdentity): Polled {
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
      host: cpu ? this.#look.take() : NOTHING,
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

/** One poller per server that is printed. */
export function poll(snapshot: Snapshot, identity: TritonIdentity): Polled {
  const poller = pollers.get(identity) ?? new Poller();
  pollers.set(identity, poller);
  return poller.take(snapshot, identity);
}

/** Polls of different processes fall together in no way: what only rises has to be as of now, or it would fall. */
const upToDate =
  (now: readonly { readonly aliveUs: number; readonly busyUs: number }[]) =>
  (engine: EnginePoll, index: number): EnginePoll => ({
    ...engine,
    ...now[index]!,
  });
