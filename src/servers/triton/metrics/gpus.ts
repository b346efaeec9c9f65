/**
 * Computes the GPU values of a poll. Memory is the memory of models and engine. Power is derived from the computing time, as on
 * `/metrics/triton` of the other roles (docs/reference/triton-metrics.md).
 */
import { wattsOf } from "../../../metrics/ensemble/gpu-power.ts";
import { HELP } from "../../../metrics/triton/help.ts";
import { uuidOf } from "../../../metrics/triton/table.ts";
import type { PageRow } from "./llm.ts";

/** Returns the properties that are equal for all GPUs. */
export const gpuFacts = (gpu: string, bytes: number) => ({ totalBytes: wholeMib(bytes), watts: wattsOf(gpu) });
export type GpuFacts = Readonly<ReturnType<typeof gpuFacts>>;

export interface GpuUse {
  readonly gpu: number;
  /** Microseconds of computation since the start. */
  readonly busyUs: number;
  readonly usedBytes: number;
}

export interface PolledGpu extends GpuUse {
  readonly utilization: number;
  readonly powerW: number;
  /** Energy since the start, in joules. */
  readonly energyJ: number;
}

const MIB = 2 ** 20;
const wholeMib = (bytes: number) => Math.floor(bytes / MIB) * MIB;
const idle = (gpu: number): PolledGpu => ({ gpu, busyUs: 0, usedBytes: 0, utilization: 0, powerW: 0, energyJ: 0 });

/** Returns the values at `nowUs`. `before`: the values of the last poll at `beforeUs`. */
export function pollGpus(
  uses: readonly GpuUse[],
  before: readonly PolledGpu[],
  { watts }: GpuFacts,
  beforeUs: number,
  nowUs: number,
): readonly PolledGpu[] {
  return uses.map((use) => {
    const previous = before.find(({ gpu }) => gpu === use.gpu) ?? idle(use.gpu);
    const utilization = Math.min(1, Math.max(0, (use.busyUs - previous.busyUs) / (nowUs - beforeUs)));
    const powerW = watts.idle + utilization * (watts.atWork - watts.idle);
    const energyJ = previous.energyJ + (powerW * (nowUs - beforeUs)) / 1e6;
    return { ...use, usedBytes: wholeMib(use.usedBytes), utilization, powerW, energyJ };
  });
}

type GpuName = Extract<keyof typeof HELP, `nv_gpu_${string}` | "nv_energy_consumption">;

/** Returns the metric rows. `gpus`: all GPUs to list. A GPU that was never polled shows 0. */
export function gpuRows(gpus: readonly number[], polled: readonly PolledGpu[], facts: GpuFacts): readonly PageRow[] {
  const row = (name: GpuName, type: "counter" | "gauge", read: (gpu: PolledGpu) => number): PageRow => {
    const value = (gpu: number) => {
      const polledGpu = polled.find((candidate) => candidate.gpu === gpu);
      return polledGpu === undefined ? 0 : read(polledGpu);
    };
    return [name, type, HELP[name], gpus.map((gpu) => ({ labels: { gpu_uuid: uuidOf(0, gpu) }, value: value(gpu) }))];
  };
  return [
    row("nv_energy_consumption", "counter", ({ energyJ }) => energyJ),
    row("nv_gpu_utilization", "gauge", ({ utilization }) => utilization),
    row("nv_gpu_memory_total_bytes", "gauge", () => facts.totalBytes),
    row("nv_gpu_memory_used_bytes", "gauge", ({ usedBytes }) => usedBytes),
    row("nv_gpu_power_usage", "gauge", ({ powerW }) => powerW),
    row("nv_gpu_power_limit", "gauge", () => facts.watts.limit),
  ];
}
