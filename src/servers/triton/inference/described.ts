/** Describes the server and its models as JSON: metadata and statistics, for HTTP and gRPC. */
import { SPANS } from "../../../metrics/ensemble/model-numbers.ts";
import { maxBatchSize, type TensorConfig } from "../model-config/model-config.ts";
import type { VersionNumber } from "../models/table.ts";
import { datatypeOf } from "../tensors/datatypes.ts";
import type { CountedTime } from "./infer-counts.ts";
import type { ModelVersion } from "./served.ts";
import type { TritonServer } from "./server.ts";
import type { ModelStatistics } from "./statistics.ts";

/** Triton's extensions in the order of the real server. */
const EXTENSIONS = [
  "classification",
  "sequence",
  "model_repository",
  "model_repository(unload_dependents)",
  "schedule_policy",
  "model_configuration",
  "system_shared_memory",
  "cuda_shared_memory",
  "binary_tensor_data",
  "parameters",
  "statistics",
  "trace",
  "logging",
];

export const serverMetadataOf = ({ facts, id }: TritonServer) => ({
  name: id,
  version: facts.version,
  extensions: EXTENSIONS,
});

/** Returns a model's metadata. `version` -1: lists all ready versions. Throws a `TritonError` if no version is ready. */
export function modelMetadataOf(server: TritonServer, name: string, version: VersionNumber) {
  const { config, ...model } = server.find(name, version);
  const batch = maxBatchSize(config) > 0 ? [-1] : [];
  // A generator, because a model may have many tensors.
  function* tensors(all: readonly TensorConfig[] = []) {
    for (const { name: own, data_type: type, dims } of all)
      yield { name: own, datatype: datatypeOf(type), shape: [...batch, ...dims] };
  }
  return {
    name,
    versions: (version === -1 ? server.versions(name) : [model.version]).map(String),
    platform: config.platform || config.backend || "",
    inputs: tensors(config.input),
    outputs: tensors(config.output),
  };
}

const counted = ({ count, us }: CountedTime) => ({ count, ns: us * 1000 });

/** Yields the entries of `model_stats`. */
export function* statisticsOfAll(models: readonly ModelVersion[]) {
  for (const model of models) yield statisticsOf(model);
}

function statisticsOf({ name, version, statistics }: ModelVersion) {
  const { success, fail, cacheHit, cacheMiss, spans } = statistics;
  const executed = success.count - cacheHit.count;
  const span = (at: number) => ({ count: at === 1 ? success.count : executed, ns: spans[at]! * 1000 });
  return {
    name,
    version: `${version}`,
    last_inference: statistics.lastInferenceMs,
    inference_count: statistics.inferences,
    execution_count: statistics.executions,
    inference_stats: {
      success: counted(success),
      fail: counted(fail),
      ...Object.fromEntries(SPANS.slice(1).map((of, at) => [of, span(at + 1)])),
      cache_hit: counted(cacheHit),
      cache_miss: counted(cacheMiss),
    },
    response_stats: {},
    batch_stats: batches(statistics),
    memory_usage: [],
  };
}

function batches({ batches: all }: ModelStatistics) {
  const computed = SPANS.slice(2);
  return [...all]
    .sort(([a], [b]) => a - b)
    .map(([size, { count, us }]) => ({
      batch_size: size,
      ...Object.fromEntries(computed.map((span, at) => [span, { count, ns: us[at]! * 1000 }])),
    }));
}
