/** The GPUs that models have asked for: their computing time, and how much of it was used. */
import type { Clock } from "../../../base/clock.ts";
import { GpuTime } from "./gpu-time.ts";

interface Use {
  /** Batches that it computes now. */
  running: number;
  fromUs: number;
  busyUs: number;
  readonly time: GpuTime;
}

export class Gpus {
  readonly #clock: Pick<Clock, "now" | "at">;
  readonly #uses = new Map<number, Use>();

  constructor(clock: Pick<Clock, "now" | "at">) {
    this.#clock = clock;
  }

  /** Adds those that no model has asked for before. */
  asked(gpus: readonly number[]): void {
    for (const gpu of gpus)
      if (!this.#uses.has(gpu))
        this.#uses.set(gpu, { running: 0, fromUs: 0, busyUs: 0, time: new GpuTime(this.#clock) });
  }

  /** Resolves when a job of `us` microseconds is done, beside the others on that GPU. */
  compute(gpu: number, us: number): Promise<void> {
    return this.#uses.get(gpu)!.time.compute(us);
  }

  get all(): readonly number[] {
    return [...this.#uses.keys()].sort((a, b) => a - b);
  }

  began(gpu: number, nowUs: number): void {
    const use = this.#uses.get(gpu)!;
    if (use.running++ === 0) use.fromUs = nowUs;
  }

  ended(gpu: number, nowUs: number): void {
    const use = this.#uses.get(gpu)!;
    if (--use.running === 0) use.busyUs += nowUs - use.fromUs;
  }

  /** How long it has computed so far, however many batches at a time. */
  busyUs(gpu: number, nowUs: number): number {
    const { running, fromUs, busyUs } = this.#uses.get(gpu)!;
    return busyUs + (running > 0 ? nowUs - fromUs : 0);
  }
}
