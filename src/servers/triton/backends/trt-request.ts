/**
 * What does a request to a `tensorrt_llm` model ask for? One wish per row of its batch: `createRequestsFromInputTensors` of the
 * backend's `utils.cc`, and what its executor refuses (1.2 line), in its words.
 */

import { REQUESTS_MOST } from "../../../base/core-limits.ts";
import { greedySeed } from "../../../text/answers/answers.ts";
import type { Steering } from "../../../text/answers/steered.ts";
import type { Structure } from "../../../text/grammar/structure.ts";
import { choiceSeeds, seedOf } from "../../openai/request/sampling.ts";
import type { ModelHost, ModelRequest } from "../behaviours/behaviour.ts";
import { elementsIn, firstNumber, numbersIn, textsIn } from "../behaviours/values.ts";
import { isDecoupled, type ModelConfig } from "../model-config/model-config.ts";
import { fromBytesText } from "../tensors/datatypes.ts";
import type { LlmAround } from "./around.ts";
import { wordsIn } from "./processing.ts";
import { steeringBy } from "./steered.ts";

export interface TrtWish {
  /** Place in the batch. */
  readonly row: number;
  readonly promptIds: Uint32Array;
  readonly maxTokens: number;
  readonly minTokens: number;
  /** -1: no token ends the answer. */
  readonly endId: number;
  readonly seeds: readonly number[];
  readonly beams: number;
  /** Sequences that each are answered by themselves. */
  readonly sequences: number;
  readonly stopWords: readonly Uint32Array[];
  readonly steering: Steering | null;
  readonly structure: Structure | null;
}

/** What is told besides the tokens. */
export interface TrtShown {
  readonly streams: boolean;
  readonly echoes: boolean;
  readonly logProbs: boolean;
  readonly contextLogits: boolean;
  readonly generationLogits: boolean;
  readonly perfMetrics: boolean;
  readonly inputTokens: boolean;
  readonly outputTokens: boolean;
}

/** The executor objects when it takes the request up: that counts as one that failed. */
export class ExecutorError extends Error {}

export function shownOf(request: ModelRequest, { config }: ModelHost): TrtShown {
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

export const configParameter = ({ parameters }: ModelConfig, name: string): string =>
  parameters?.[name]?.string_value ?? "";

/** Throws what the backend refuses; `ExecutorError`: its executor does. */
export function wishesOf(request: ModelRequest, host: ModelHost, around: LlmAround, shown: TrtShown): TrtWish[] {
  const { streams } = shown;
  const inputs = new Rows(request);
  const decoupled = isDecoupled(host.config);
  if (!decoupled && inputs.batch > 1)
    throw new Error("Batch size > 1 requires the tensorrt_llm backend to be using decoupled transaction policy");
  if (streams && !decoupled) throw new Error("Streaming is only supported if model is deployed using decoupled mode.");
  if (!request.inputs.has("input_ids"))
    throw new Error("input_ids or encoder_input_features is not present in the request.");
  const wishes = Array.from({ length: inputs.batch }, (_, row) => wishOf(inputs, row, around));
  if (!decoupled && wishes.some(({ sequences }) => sequences > 1))
    throw new Error(
      "num_return_sequences > 1 requires the tensorrt_llm backend to be using decoupled transaction policy",
    );
  for (const wish of wishes) {
    checkLimits(wish, host.config, around);
    checkLogits(wish, shown, around);
  }
  return wishes;
}

function wishOf(inputs: Rows, row: number, around: LlmAround): TrtWish {
  const all = inputs.row("input_ids", row);
  const length = inputs.one("input_lengths", row, all.length);
  const promptIds = idsIn(all, length);
  const maxTokens = inputs.one("request_output_len", row, 0);
  if (promptIds.length === 0) throw new Error("Assertion failed: !mInputTokenIds.empty()");
  if (maxTokens <= 0) throw new Error("Assertion failed: mMaxNewTokens > 0");
  const minTokens = inputs.one("min_tokens", row, 0);
  const endId = inputs.one("end_id", row, -1);
  const seed = inputs.one("seed", row, -1);
  // Where nobody says a seed the executor's is always the same one.
  // The seed of a prompt that is refused is not looked for: it depends on all ids, which may be millions.
  const isRefused = promptIds.length >= around.maxModelLen;
  const first = isRefused
    ? 0
    : seed < 0
      ? greedySeed(promptIds)
      : seedOf({ seed, temperature: 1 }, promptIds, around.nextSeed);
  const beams = Math.max(1, inputs.one("beam_width", row, 1));
  const sequences = Math.max(1, inputs.one("num_return_sequences", row, 1));
  const limits = { minTokens, ignoreEos: endId < 0, stopTokenIds: endId < 0 ? [] : [endId] };
  const bad = wordsIn("bad_words_list", inputs.row("bad_words_list", row));
  return {
    row,
    promptIds,
    maxTokens,
    minTokens,
    endId,
    seeds: choiceSeeds(first, Math.min(beams * sequences, REQUESTS_MOST)),
    beams,
    sequences,
    stopWords: wordsIn("stop_words_list", inputs.row("stop_words_list", row)),
    steering: steeringBy(around, bad, inputs.row("embedding_bias", row), limits),
    structure: inputs.guide(row),
  };
}

/** The first `length` ids, without a copy if they are INT32. */
function idsIn(all: Int32Array | Float32Array | number[], length: number): Uint32Array {
  if (!(all instanceof Int32Array)) return Uint32Array.from(all.slice(0, length));
  const ids = all.subarray(0, length);
  return new Uint32Array(ids.buffer, ids.byteOffset, ids.length);
}

function checkLimits({ promptIds, endId, beams, sequences }: TrtWish, config: ModelConfig, around: LlmAround): void {
  const { size } = around.text.vocabulary;
  const most = Number(configParameter(config, "max_beam_width")) || 1;
  if (endId >= size) throw new ExecutorError(`EndId (${endId}) is not within acceptable range [-1, ${size}).`);
  if (promptIds.length >= around.maxModelLen)
    throw new ExecutorError(
      `Prompt length (${promptIds.length}) exceeds maximum input length (${around.maxModelLen - 1}). Set log level to info and check TRTGptModel logs for how maximum input length is set`,
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

/** A response's logits take at most so much; the real ones are as large. */
const LOGITS_BYTES = 64 * 2 ** 20;

function checkLogits({ promptIds, maxTokens, beams }: TrtWish, shown: TrtShown, { text }: LlmAround): void {
  const context = shown.contextLogits ? promptIds.length : 0;
  const generation = shown.generationLogits ? beams * (shown.streams ? 1 : maxTokens) : 0;
  const bytes = 4 * text.vocabulary.size * (context + generation);
  if (bytes > LOGITS_BYTES)
    throw new ExecutorError(`Logits of ${bytes} bytes in one response: ${LOGITS_BYTES} at most`);
}

/** Inputs by the rows of the batch; those without batches have one. */
class Rows {
  readonly batch: number;
  readonly #request: ModelRequest;
  readonly #read = new Map<string, Int32Array | Float32Array | number[]>();

  constructor(request: ModelRequest) {
    this.#request = request;
    this.batch = Math.max(1, elementsIn(request, "request_output_len")?.length ?? 1);
  }

  one(name: string, row: number, otherwise: number): number {
    return this.row(name, row)[0] ?? otherwise;
  }

  /** Numbers of 32 bits are a view of the tensor, because there may be millions. */
  row(name: string, row: number): Int32Array | Float32Array | number[] {
    const read = this.#read.get(name) ?? this.#numbers(name);
    this.#read.set(name, read);
    const each = read.length / this.batch;
    return "subarray" in read ? read.subarray(row * each, (row + 1) * each) : read.slice(row * each, (row + 1) * each);
  }

  #numbers(name: string): Int32Array | Float32Array | number[] {
    const elements = elementsIn(this.#request, name);
    if (elements instanceof Int32Array || elements instanceof Float32Array) return elements;
    return [...numbersIn(this.#request, name)];
  }

  /** `guided_decoding_*`; kinds that nobody knows say nothing. */
  guide(row: number): Structure | null {
    const guide = fromBytesText(textsIn(this.#request, "guided_decoding_guide")?.[row] ?? "");
    switch (textsIn(this.#request, "guided_decoding_guide_type")?.[row]) {
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
