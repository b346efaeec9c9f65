/** What do server and models tell of themselves? The same over HTTP and gRPC, as JSON has it. */
import { SPANS } from "../../../metrics/ensemble/model-numbers.ts";
import { maxBatchSize, type TensorConfig } from "../model-config/model-config.ts";
import type { VersionNumber } from "../models/table.ts";
import { datatypeOf } from "../tensors/datatypes.ts";
import type { CountedTime } from "./infer-counts.ts";
import type { Served } from "./served.ts";
import type { TritonServer } from "./server.ts";
import type { ModelStatistics } from "./statistics.ts";

/** In the order in which the real server names them. */
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

/** `version` -1: of all that are ready. Throws a `TritonError` where there is none. */
export function modelMetadataOf(server: TritonServer, name: string, version: VersionNumber) {
  const { config, ...model } = server.find(name, version);
  const batch = maxBatchSize(config) > 0 ? [-1] : [];
  // One by one: there may be many.
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

/** `model_stats`, one by one. */
export function* statisticsOfAll(models: readonly Served[]) {
  for (const model of models) yield statisticsOf(model);
}

function statisticsOf({ name, version, statistics }: Served) {
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
  return [...all]
    .sort(([a], [b]) => a - b)
    .map(([size, { count, input, infer, output }]) => ({
      batch_size: size,
      compute_input: { count, ns: input * 1000 },
      compute_infer: { count, ns: infer * 1000 },
      compute_output: { count, ns: output * 1000 },
    }));
}
