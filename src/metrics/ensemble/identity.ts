/** The Triton server that the tables describe. Constant for the life of the process, plain data. */

import { engineMemory } from "../../engine/timing/device-defaults.ts";
import { findPreset } from "../../engine/timing/presets.ts";
import type { MetricsSource } from "../config/metrics-source.ts";
import { ENSEMBLE } from "./ensemble.ts";
import { wattsOf } from "./gpu-power.ts";

/** A loaded model. Its numbers are at its index in the list. */
export interface ModelIdentity {
  readonly name: string;
  readonly version: string;
}

export interface TritonIdentity {
  readonly models: readonly ModelIdentity[];
  /** Model that owns the executor. */
  readonly llm: ModelIdentity;
  readonly metrics: boolean;
  readonly cpu: boolean;
  readonly counters: boolean;
  readonly histograms: boolean;
  /** Empty if there are no summaries. */
  readonly quantiles: readonly number[];
  readonly intervalMs: number;
  /** True if several processes answer, each of which polls by itself. */
  readonly several: boolean;
  /** Seconds that loading the models took. */
  readonly loadS: number;
  readonly tokensPerBlock: number;
  /** Largest number of requests of one engine. */
  readonly requestsMax: number;
  /** True for TensorRT-LLM's STATIC_BATCH. Absent: in-flight batching. */
  readonly staticBatch?: boolean;
  /** GPUs of one engine. Empty if GPU metrics are off. */
  readonly gpus: readonly GpuIdentity[];
  /** Bytes of its GPUs' memory that one engine holds after loading. */
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

/** Returns the name of the ensemble. If the requested name is that of a step, returns the default, because names of models are unique. */
const ensembleOf = (name: string): string => (STEPS.some((step) => step === name) ? DEFAULT : name);

/** Parts of a configuration that determine the identity. */
type TritonSource = Pick<MetricsSource, "workers"> & {
  readonly metrics: Pick<MetricsSource["metrics"], "triton" | "role">;
  readonly deployment: Pick<MetricsSource["deployment"], "preset" | "gpuMemoryUtilization">;
} & {
  readonly engine: Pick<MetricsSource["engine"], "blockSize" | "numGpuBlocks" | "maxNumSeqs" | "trtllm">;
};

export function tritonIdentity(config: TritonSource, loadS: number): TritonIdentity {
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
  const gpuIdentity: GpuIdentity = { totalBytes: wholeMib(gpuMemoryBytes), usedBytes, watts: wattsOf(gpu) };
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
    gpus: triton.gpu ? Array.from({ length: tp }, () => gpuIdentity) : [],
    // For a Triton server, only the memory of weights and KV pool counts.
    gpuBytesHeld: config.metrics.role === "triton" ? weightBytes + kvBytes : tp * usedBytes,
  };
}
