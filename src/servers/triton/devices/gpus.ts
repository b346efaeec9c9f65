/** Tracks computing time and utilization of the GPUs that models use. */
import type { Clock } from "../../../base/clock.ts";
import { GpuTime } from "./gpu-time.ts";

interface GpuUsage {
  /** Number of batches that run on the GPU now. */
  running: number;
  fromUs: number;
  busyUs: number;
  readonly time: GpuTime;
}

export class Gpus {
  readonly #uses = new Map<number, GpuUsage>();

  constructor(private readonly clock: Pick<Clock, "now" | "at">) {}

  /** Adds the GPUs that are not known yet. */
  addMissing(gpus: readonly number[]): void {
    for (const gpu of gpus)
      if (!this.#uses.has(gpu))
        this.#uses.set(gpu, { running: 0, fromUs: 0, busyUs: 0, time: new GpuTime(this.clock) });
  }

  /** Resolves when a job of `us` microseconds is done. It shares the GPU with the other jobs. */
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

  /** Returns the microseconds in which at least one batch was running. */
  busyUs(gpu: number, nowUs: number): number {
    const { running, fromUs, busyUs } = this.#uses.get(gpu)!;
    return busyUs + (running > 0 ? nowUs - fromUs : 0);
  }
}
