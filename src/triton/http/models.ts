/** What do the paths of server, models and repository answer? Metadata, readiness, configuration, statistics, index, load, unload. */
import { SPANS } from "../../metrics/triton/model-numbers.ts";
import { configJson } from "../config/config-json.ts";
import { maxBatchSize, type TensorConfig } from "../config/model-config.ts";
import { internal, invalidArg, TritonError } from "../config/status.ts";
import type { Served } from "../server/served.ts";
import type { CountedTime, ModelStatistics } from "../server/statistics.ts";
import { asBoolean, asBytesText, documentOf, find, membersOf, within } from "../tensors/access.ts";
import { datatypeOf, fromBytesText, toBytesText } from "../tensors/datatypes.ts";
import type { JsonNode } from "../tensors/rapid-json.ts";
import { errorText, type HandlerAnswer, type HttpCall, jsonAnswer, plain } from "./call.ts";

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

const told = (value: unknown): HandlerAnswer => jsonAnswer(toBytesText(JSON.stringify(value)));

export const serverMetadata = ({ around }: HttpCall): HandlerAnswer =>
  told({ name: "triton", version: around.server.facts.version, extensions: EXTENSIONS });

export const health = ({ found: [kind], around }: HttpCall): HandlerAnswer =>
  plain("", kind === "live" || around.server.ready ? 200 : 400);

const versionOf = (version: string | undefined): number => (version === undefined ? -1 : Number(version));

export function modelReady({ found: [name = "", version], around }: HttpCall): HandlerAnswer {
  return around.server.isReady(name, versionOf(version)) ? plain("") : plain(errorText("Model version not ready"), 400);
}

export function modelMetadata({ found: [name = "", version], around: { server } }: HttpCall): HandlerAnswer {
  const { config, ...model } = server.find(name, versionOf(version));
  const batch = maxBatchSize(config) > 0 ? [-1] : [];
  const tensor = ({ name: own, data_type: type, dims }: TensorConfig) => ({
    name: own,
    datatype: datatypeOf(type),
    shape: [...batch, ...dims],
  });
  return told({
    name,
    versions: (version === undefined ? server.versions(name) : [model.version]).map(String),
    platform: config.platform || config.backend || "",
    inputs: (config.input ?? []).map(tensor),
    outputs: (config.output ?? []).map(tensor),
  });
}

export function modelConfig({ found: [name = "", version], around: { server } }: HttpCall): HandlerAnswer {
  const { config } = server.find(name, versionOf(version));
  return told(configJson(config, server.facts.laterFields));
}

export function modelStatistics({ found: [name, version], around: { server } }: HttpCall): HandlerAnswer {
  return told({ model_stats: server.statistics(name ?? null, versionOf(version)).map(statisticsOf) });
}

const counted = ({ count, us }: CountedTime) => ({ count, ns: us * 1000 });

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

/** null: the body is empty. */
async function documentIn(call: HttpCall): Promise<JsonNode | null> {
  const body = (await call.body()) ?? new Uint8Array();
  return body.length === 0 ? null : documentOf(body);
}

export async function repositoryIndex(call: HttpCall): Promise<HandlerAnswer> {
  const ready = find(await documentIn(call), "ready");
  if (ready !== undefined && typeof ready !== "boolean")
    throw invalidArg("Invalid value for 'ready': expected a boolean");
  return told(call.around.server.index(ready === true));
}

export async function repositoryControl(call: HttpCall): Promise<HandlerAnswer> {
  const [repository, , name = "", action] = call.found;
  const { server } = call.around;
  if (repository !== undefined)
    throw new TritonError("UNSUPPORTED", "'repository_name' specification is not supported");
  const parameters = find(await documentIn(call), "parameters");
  if (action === "unload") {
    const dependents = find(parameters ?? null, "unload_dependents");
    const all = dependents !== undefined && within("Unable to parse 'unload_dependents'", () => asBoolean(dependents));
    server.unload(name, all);
    return jsonAnswer("");
  }
  let config: string | null = null;
  const files = new Map<string, Uint8Array>();
  for (const [key, value] of parameters === undefined ? [] : membersOf(parameters)) {
    const text = asBytesText(value);
    if (key === "config") config = fromBytesText(text);
    else if (key.startsWith("file:")) files.set(fromBytesText(key.slice(5)), Buffer.from(text, "base64"));
    else throw internal("unexpected error on creating Triton parameter");
  }
  await server.load(name, { config, files });
  return jsonAnswer("");
}
