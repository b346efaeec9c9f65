/** Builds the text that the server prints at its start: what it emulates, where it listens, and a command to try. */
import { version } from "../../../package.json";
import type { ServeConfig } from "../../app/config/serve-config.ts";
import type { EngineConfig } from "../../engine/config/engine-config.ts";
import { timingText } from "../../engine/timing/timing-text.ts";
import type { StreamWrites } from "../../kernel/stream-writes.ts";
import { outputLengthsText } from "../../text/answers/length-forms.ts";

/** URLs at which a server accepts requests. */
export interface ListenUrls {
  readonly url: string;
  /** URL of Triton's metrics. Null if the metrics have no port of their own. */
  readonly tritonUrl: string | null;
  /** URL of the port for HTTP/2. Null if HTTP/2 has no port of its own. */
  readonly http2Url: string | null;
}

/**
 * Returns the text. `startedMs`: time since the process started. `writes`: how token events are written. `pids`: process ids of
 * the workers, if there are several. `urls`: those of all ranks, if each has a port.
 */
export function describe(
  config: ServeConfig,
  { url, tritonUrl, http2Url }: ListenUrls,
  startedMs: number,
  writes: Pick<StreamWrites, "mode" | "why">,
  pids: readonly number[] = [],
  urls: readonly string[] = [url],
): string {
  const { engine, dataParallelSize } = config;
  const { servedModelNames } = config.models;
  const engines = dataParallelSize * Math.max(1, pids.length);
  const each = engines > 1 ? ` in each of ${engines} engines` : "";
  const body = JSON.stringify({
    model: servedModelNames[0],
    messages: [{ role: "user", content: "Hello" }],
    stream: true,
    max_tokens: 32,
  });
  return [
    `understudy ${version} stands in for vLLM 0.33.0 serving ${servedModelNames.join(", ")}`,
    `  scheduling  ${schedulingText(engine)}, max_model_len ${engine.maxModelLen}`,
    `  KV cache    ${engine.numGpuBlocks} blocks of ${engine.blockSize} tokens${each}${grownText(config)}`,
    `  timing      ${timingText(engine)}`,
    ...presetText(config),
    `  answers     ${outputLengthsText(config.text.outputTokens)} tokens, cut by max_tokens`,
    ...(pids.length > 0 ? [`  workers     ${pids.length} processes: ${pids.join(", ")}`] : []),
    `  writes      ${writesText(writes)}`,
    `  listening   ${url} after ${Math.round(startedMs)} ms`,
    ...urls.slice(1).map((other, at) => `  rank ${at + 1}      ${other}`),
    ...(http2Url === null ? [] : [`  HTTP/2      ${http2Url}`]),
    ...(tritonUrl === null ? [] : [`  metrics     Triton's metrics on ${tritonUrl}`]),
    `  try         curl -N ${url}/v1/chat/completions -H 'Content-Type: application/json'${auth(config)} -d '${body}'`,
  ].join("\n");
}

/** Explains why the KV pool is larger than that of the default preset. Returns "" if it is not larger. */
function grownText({ deployment: { poolGrownFrom: from, preset }, engine }: ServeConfig): string {
  if (from === undefined) return "";
  return `; ${preset} has ${Math.max(0, from)}, too few for one request of max_model_len ${engine.maxModelLen}`;
}

/** Describes the scheduler and its limits in the terms of vLLM or TensorRT-LLM. */
function schedulingText(engine: EngineConfig): string {
  const { maxNumSeqs, maxNumBatchedTokens, trtllm, asyncScheduling, enablePrefixCaching, enableChunkedPrefill } =
    engine;
  if (trtllm !== undefined) {
    const kind = [
      `TensorRT-LLM's ${trtllm.capacitySchedulerPolicy}`,
      enableChunkedPrefill ? `chunks ${trtllm.contextChunkingPolicy}` : "whole prompts",
      asyncScheduling ? "overlap" : "no overlap",
      enablePrefixCaching ? "block reuse" : "no block reuse",
      engine.schedulingPolicy,
    ];
    return `${kind.join(", ")}; max_batch_size ${maxNumSeqs}, max_num_tokens ${maxNumBatchedTokens}`;
  }
  const kind = [
    asyncScheduling ? "asynchronous" : "synchronous",
    engine.schedulingPolicy,
    enableChunkedPrefill ? "chunked prefill" : "whole prefills",
    enablePrefixCaching ? "prefix caching" : "no prefix caching",
  ];
  return `${kind.join(", ")}; max_num_seqs ${maxNumSeqs}, max_num_batched_tokens ${maxNumBatchedTokens}`;
}

function writesText({ mode, why }: Pick<StreamWrites, "mode" | "why">): string {
  if (mode === "batched") return "one native call for all plain tokens of a step";
  return `one call per event${why === undefined ? "" : `, not one per step: ${why}`}`;
}

function auth({ openai: { front } }: ServeConfig): string {
  return front.apiKeys.length > 0 ? " -H 'Authorization: Bearer <key>'" : "";
}

/** Names the preset that the model's name selects. Returns "" if the user selected the preset, or named no model. */
function presetText({ models, deployment, engine }: ServeConfig): readonly string[] {
  const { preset, presetsOfModel } = deployment;
  if (presetsOfModel === undefined) return [];
  const values = engine.timing.kind === "table" ? "step times, KV pool and batch sizes" : "KV pool and batch sizes";
  const [taken, ...others] = presetsOfModel;
  if (taken === undefined)
    return [`  preset      none for ${models.model}: ${values} are those of the default, ${preset}`];
  const rest = others.length === 0 ? "" : `; --timing also accepts ${others.join(", ")}`;
  return [`  preset      ${taken}, chosen by the model's name: ${values}${rest}`];
}
