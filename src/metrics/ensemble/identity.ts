/** Which Triton server do the tables describe? Constant for the life of the process, plain data. */

import { engineMemory } from "../../engine/timing/device-defaults.ts";
import { findPreset } from "../../engine/timing/presets.ts";
import type { MetricsSource } from "../config/metrics-source.ts";
import { ENSEMBLE } from "./ensemble.ts";
import { wattsOf } from "./gpu-power.ts";

/** A model that is loaded; its numbers have its place in the list. */
export interface ModelIdentity {
  readonly name: string;
  readonly version: string;
}

export interface TritonIdentity {
  readonly models: readonly ModelIdentity[];
  /** The one that owns the executor. */
  readonly llm: ModelIdentity;
  readonly metrics: boolean;
  readonly cpu: boolean;
  readonly counters: boolean;
  readonly histograms: boolean;
  /** None: no summaries. */
  readonly quantiles: readonly number[];
  readonly intervalMs: number;
  /** Several processes answer, and each polls for itself. */
  readonly several: boolean;
  /** How long the models took to load, seconds. */
  readonly loadS: number;
  readonly tokensPerBlock: number;
  /** Most requests of one engine. */
  readonly requestsMax: number;
  /** TensorRT-LLM's STATIC_BATCH: its executor batches statically. Absent: in flight. */
  readonly staticBatch?: boolean;
  /** GPUs of one engine; empty where GPUs are not shown. */
  readonly gpus: readonly GpuIdentity[];
  /** What one engine holds of its GPUs' memory from load on. */
  readonly gpuBytesHeld: number;
}

export interface GpuIdentity {
  readonly totalBytes: number;
  readonly usedBytes: number;
  readonly watts: { readonly limit: number; readonly idle: number; readonly atWork: number };
}

const MIB = 2 ** 20;
const wholeMib = (bytes: number) => Math.floor(bytes / MIB) * MIB;

const [DEFAULT, ...STEPS] = ENSEMBLE;

/** A model has a name of its own: one that a step has leaves the ensemble its usual one. */
const ensembleOf = (name: string): string => (STEPS.some((step) => step === name) ? DEFAULT : name);

/** What of a configuration it follows from. */
type Served = Pick<MetricsSource, "workers"> & {
  readonly metrics: Pick<MetricsSource["metrics"], "triton" | "role">;
  readonly deployment: Pick<MetricsSource["deployment"], "preset" | "gpuMemoryUtilization">;
} & {
  readonly engine: Pick<MetricsSource["engine"], "blockSize" | "numGpuBlocks" | "maxNumSeqs" | "trtllm">;
};

export function tritonIdentity(config: Served, loadS: number): TritonIdentity {
  const {
    metrics: { triton },
    workers,
    engine,
    deployment: { preset, gpuMemoryUtilization },
  } = config;
  const profile = findPreset(preset)!;
  const { gpu, gpuMemoryBytes, tp } = profile;
  const { weightBytes, kvBytes } = engineMemory(profile, engine);
  const usedBytes = wholeMib(gpuMemoryBytes * gpuMemoryUtilization);
  const one: GpuIdentity = { totalBytes: wholeMib(gpuMemoryBytes), usedBytes, watts: wattsOf(gpu) };
  return {
    models: [ensembleOf(triton.ensemble), ...STEPS].map((name) => ({ name, version: "1" })),
    llm: { name: "tensorrt_llm", version: "1" },
    metrics: triton.metrics,
    cpu: triton.cpu,
    counters: triton.counters,
    histograms: triton.histograms,
    quantiles: triton.quantiles.map(({ quantile }) => quantile),
    intervalMs: triton.intervalMs,
    several: workers > 1,
    loadS,
    tokensPerBlock: engine.blockSize,
    requestsMax: engine.maxNumSeqs,
    ...(engine.trtllm?.capacitySchedulerPolicy === "STATIC_BATCH" ? { staticBatch: true } : {}),
    gpus: triton.gpu ? Array.from({ length: tp }, () => one) : [],
    // A Triton server reckons with what lies on its GPUs.
    gpuBytesHeld: config.metrics.role === "triton" ? weightBytes + kvBytes : tp * usedBytes,
  };
}
