/**
 * Reads the inputs of a request to a `tensorrt_llm` model, row by row of its batch. Source: `createRequestsFromInputTensors` in
 * the backend's `utils.cc`, and the checks of its executor (1.2 line), with their messages.
 */

import { REQUESTS_MOST } from "../../../base/core-limits.ts";
import { greedySeed } from "../../../text/answers/answers.ts";
import type { Structure } from "../../../text/grammar/structure.ts";
import { choiceSeeds, seedOf } from "../../openai/request/sampling.ts";
import type { ModelHost, ModelRequest } from "../behaviours/behaviour.ts";
import { elementsIn, firstNumber, numbersIn, textsIn } from "../behaviours/values.ts";
import { isDecoupled, type ModelConfig } from "../model-config/model-config.ts";
import { fromBytesText } from "../tensors/datatypes.ts";
import type { LlmDeps } from "./around.ts";
import { wordsIn } from "./processing.ts";
import { steeringBy } from "./steered.ts";

/** An error of the executor. The request then counts as failed; after an error of the backend it counts nowhere. */
export class ExecutorError extends Error {}

/** Reads which outputs a request wants in addition to the tokens, and whether it streams. */
export function outputOptionsOf(request: ModelRequest, { config }: ModelHost) {
  const wants = (name: string) => firstNumber(request, name, 0) !== 0;
  const byDefault = /^(true|1)$/i.test(configParameter(config, "exclude_input_in_output")) ? 1 : 0;
  return {
    streams: wants("streaming"),
    echoes: firstNumber(request, "exclude_input_in_output", byDefault) === 0,
    logProbs: wants("return_log_probs"),
    contextLogits: wants("return_context_logits"),
    generationLogits: wants("return_generation_logits"),
    perfMetrics: wants("return_perf_metrics"),
    inputTokens: wants("return_num_input_tokens"),
    outputTokens: wants("return_num_output_tokens"),
  };
}

export type TrtOutputOptions = ReturnType<typeof outputOptionsOf>;

export const configParameter = ({ parameters }: ModelConfig, name: string): string =>
  parameters?.[name]?.string_value ?? "";

/** Reads all rows of a batch. Throws an Error if the backend refuses the request, an `ExecutorError` if its executor does. */
export function sequenceRequestsOf(
  request: ModelRequest,
  host: ModelHost,
  deps: LlmDeps,
  shown: TrtOutputOptions,
): TrtSequenceRequest[] {
  const { streams } = shown;
  const inputs = new BatchInputs(request);
  const decoupled = isDecoupled(host.config);
  if (!decoupled && inputs.batch > 1)
    throw new Error("Batch size > 1 requires the tensorrt_llm backend to be using decoupled transaction policy");
  if (streams && !decoupled) throw new Error("Streaming is only supported if model is deployed using decoupled mode.");
  if (!request.inputs.has("input_ids"))
    throw new Error("input_ids or encoder_input_features is not present in the request.");
  const wishes = Array.from({ length: inputs.batch }, (_, row) => sequenceRequestOf(inputs, row, deps));
  if (!decoupled && wishes.some(({ sequences }) => sequences > 1))
    throw new Error(
      "num_return_sequences > 1 requires the tensorrt_llm backend to be using decoupled transaction policy",
    );
  for (const wish of wishes) {
    checkLimits(wish, host.config, deps);
    checkLogits(wish, shown, deps);
  }
  return wishes;
}

export type TrtSequenceRequest = ReturnType<typeof sequenceRequestOf>;

/** Reads the sequences that one row of a batch requests. */
function sequenceRequestOf(inputs: BatchInputs, row: number, deps: LlmDeps) {
  const all = inputs.row("input_ids", row);
  const length = inputs.numberAt("input_lengths", row, all.length);
  const promptIds = idsIn(all, length);
  const maxTokens = inputs.numberAt("request_output_len", row, 0);
  if (promptIds.length === 0) throw new Error("Assertion failed: !mInputTokenIds.empty()");
  if (maxTokens <= 0) throw new Error("Assertion failed: mMaxNewTokens > 0");
  const minTokens = inputs.numberAt("min_tokens", row, 0);
  const endId = inputs.numberAt("end_id", row, -1);
  const seed = inputs.numberAt("seed", row, -1);
  // A prompt that will be refused needs no seed: computing it reads all ids, which may be millions.
  const isRefused = promptIds.length >= deps.maxModelLen;
  const first = isRefused ? 0 : trtSeed(seed, promptIds, deps);
  const beams = Math.max(1, inputs.numberAt("beam_width", row, 1));
  const sequences = Math.max(1, inputs.numberAt("num_return_sequences", row, 1));
  const limits = { minTokens, ignoreEos: endId < 0, stopTokenIds: endId < 0 ? [] : [endId] };
  const bad = wordsIn("bad_words_list", inputs.row("bad_words_list", row));
  return {
    /** Index in the batch. */
    row,
    promptIds,
    maxTokens,
    minTokens,
    /** Token that ends the answer. -1: none. */
    endId,
    seeds: choiceSeeds(first, Math.min(beams * sequences, REQUESTS_MOST)),
    beams,
    /** Number of sequences (`num_return_sequences`), each with its own responses. */
    sequences,
    stopWords: wordsIn("stop_words_list", inputs.row("stop_words_list", row)),
    steering: steeringBy(deps, bad, inputs.row("embedding_bias", row), limits),
    structure: inputs.guide(row),
  };
}

/**
 * Returns the seed from which an answer is drawn. `seed`: the seed in the request. If it is negative, the request has none, and
 * equal prompts get equal answers, because the executor then always uses the same seed.
 */
export const trtSeed = (seed: number, promptIds: Uint32Array, { nextSeed }: LlmDeps): number =>
  seed < 0 ? greedySeed(promptIds) : seedOf({ seed, temperature: 1 }, promptIds, nextSeed);

/** Returns the first `length` ids, without a copy if they are INT32. */
function idsIn(all: Int32Array | Float32Array | number[], length: number): Uint32Array {
  if (!(all instanceof Int32Array)) return Uint32Array.from(all.slice(0, length));
  const ids = all.subarray(0, length);
  return new Uint32Array(ids.buffer, ids.byteOffset, ids.length);
}

function checkLimits(
  { promptIds, endId, beams, sequences }: TrtSequenceRequest,
  config: ModelConfig,
  deps: LlmDeps,
): void {
  const { size } = deps.text.vocabulary;
  const most = Number(configParameter(config, "max_beam_width")) || 1;
  if (endId >= size) throw new ExecutorError(`EndId (${endId}) is not within acceptable range [-1, ${size}).`);
  if (promptIds.length >= deps.maxModelLen)
    throw new ExecutorError(
      `Prompt length (${promptIds.length}) exceeds maximum input length (${deps.maxModelLen - 1}). Set log level to info and check TRTGptModel logs for how maximum input length is set`,
    );
  if (promptIds.some((id) => id >= size))
    throw new ExecutorError(`Input token ids are not within acceptable range [0, ${size}).`);
  if (beams > most)
    throw new ExecutorError(`Requested beam width ${beams} is larger than configured max beam width ${most}`);
  if (beams * sequences > REQUESTS_MOST)
    throw new ExecutorError(
      `${beams * sequences} sequences are more than the ${REQUESTS_MOST} that the executor holds`,
    );
}

/** Largest size of the logits in a response, in bytes. The real tensors have the same size. */
const LOGITS_BYTES = 64 * 2 ** 20;

function checkLogits(
  { promptIds, maxTokens, beams }: TrtSequenceRequest,
  shown: TrtOutputOptions,
  { text }: LlmDeps,
): void {
  const context = shown.contextLogits ? promptIds.length : 0;
  const generation = shown.generationLogits ? beams * (shown.streams ? 1 : maxTokens) : 0;
  const bytes = 4 * text.vocabulary.size * (context + generation);
  if (bytes > LOGITS_BYTES)
    throw new ExecutorError(`Logits of ${bytes} bytes in one response: ${LOGITS_BYTES} at most`);
}

/** Gives access to the inputs by batch row. Inputs without a batch have one row. */
class BatchInputs {
  readonly batch: number;
  readonly #read = new Map<string, Int32Array | Float32Array | number[]>();

  constructor(private readonly request: ModelRequest) {
    this.batch = Math.max(1, elementsIn(request, "request_output_len")?.length ?? 1);
  }

  numberAt(name: string, row: number, otherwise: number): number {
    return this.row(name, row)[0] ?? otherwise;
  }

  /** Returns a row. 32-bit numbers stay a view of the tensor, because there may be millions. */
  row(name: string, row: number): Int32Array | Float32Array | number[] {
    const read = this.#read.get(name) ?? this.#numbers(name);
    this.#read.set(name, read);
    const each = read.length / this.batch;
    return "subarray" in read ? read.subarray(row * each, (row + 1) * each) : read.slice(row * each, (row + 1) * each);
  }

  #numbers(name: string): Int32Array | Float32Array | number[] {
    const elements = elementsIn(this.request, name);
    if (elements instanceof Int32Array || elements instanceof Float32Array) return elements;
    return [...numbersIn(this.request, name)];
  }

  /** Reads `guided_decoding_*`. Unknown guide types are ignored. */
  guide(row: number): Structure | null {
    const guide = fromBytesText(textsIn(this.request, "guided_decoding_guide")?.[row] ?? "");
    switch (textsIn(this.request, "guided_decoding_guide_type")?.[row]) {
      case "json":
        return { kind: "object" };
      case "json_schema":
        return { kind: "json", schema: guide };
      case "regex":
        return { kind: "regex", pattern: guide };
      case "ebnf_grammar":
        return { kind: "grammar", grammar: guide };
      default:
        return null;
    }
  }
}
