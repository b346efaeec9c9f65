/**
 * What does a poll find of the GPUs? Memory is what models and the engine hold; what a GPU draws is made up from the time in
 * which it computed, as on `/metrics/triton` of other roles (docs/triton-metrics.md).
 */
import { wattsOf } from "../../../metrics/ensemble/gpu-power.ts";
import type { Sample } from "../../../metrics/rows/text.ts";
import { HELP } from "../../../metrics/triton/help.ts";
import { uuidOf } from "../../../metrics/triton/table.ts";

/** What all GPUs have alike. */
export interface GpuFacts {
  readonly totalBytes: number;
  readonly watts: ReturnType<typeof wattsOf>;
}

export const gpuFacts = (gpu: string, bytes: number): GpuFacts => ({
  totalBytes: wholeMib(bytes),
  watts: wattsOf(gpu),
});

export interface GpuUse {
  readonly gpu: number;
  /** Time in which it computed, from the start. */
  readonly busyUs: number;
  readonly usedBytes: number;
}

export interface PolledGpu extends GpuUse {
  /** Share of the time since the poll before. */
  readonly utilization: number;
  readonly powerW: number;
  /** From the start. */
  readonly energyJ: number;
}

const MIB = 2 ** 20;
const wholeMib = (bytes: number) => Math.floor(bytes / MIB) * MIB;
const idle = (gpu: number): PolledGpu => ({ gpu, busyUs: 0, usedBytes: 0, utilization: 0, powerW: 0, energyJ: 0 });

/** The GPUs at `nowUs`, from what they were at `beforeUs`. */
export function pollGpus(
  uses: readonly GpuUse[],
  before: readonly PolledGpu[],
  { watts }: GpuFacts,
  beforeUs: number,
  nowUs: number,
): readonly PolledGpu[] {
  return uses.map((use) => {
    const then = before.find(({ gpu }) => gpu === use.gpu) ?? idle(use.gpu);
    const utilization = Math.min(1, Math.max(0, (use.busyUs - then.busyUs) / (nowUs - beforeUs)));
    const powerW = watts.idle + utilization * (watts.atWork - watts.idle);
    const energyJ = then.energyJ + (powerW * (nowUs - beforeUs)) / 1e6;
    return { ...use, usedBytes: wholeMib(use.usedBytes), utilization, powerW, energyJ };
  });
}

type GpuName = Extract<keyof typeof HELP, `nv_gpu_${string}` | "nv_energy_consumption">;
export type GpuRow = readonly [name: GpuName, type: "counter" | "gauge", help: string, values: readonly Sample[]];

/** `gpus`: those that are there; all 0 of one that no poll has found yet. */
export function gpuRows(gpus: readonly number[], polled: readonly PolledGpu[], facts: GpuFacts): readonly GpuRow[] {
  const row = (name: GpuName, type: GpuRow[1], read: (gpu: PolledGpu) => number): GpuRow => {
    const value = (gpu: number) => {
      const found = polled.find((one) => one.gpu === gpu);
      return found === undefined ? 0 : read(found);
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
