/**
 * Implements `tensorrt_llm_bls`: calls `preprocessing`, `tensorrt_llm` and, for each response, `postprocessing`, and cuts the
 * text after a stop word. An instance stays busy until its request ends. Draft models and multimodal encoders do not exist
 * here. Source: `tensorrt_llm_bls/1/model.py` and `lib/decode.py` (1.3 line).
 */
import type { Behaviour, ModelHost, ModelRequest, ModelResponse, StreamRequest } from "../behaviours/behaviour.ts";
import { firstNumber, numbersIn, numberTensor, outputs, textsIn, textTensor } from "../behaviours/values.ts";
import { isDecoupled } from "../model-config/model-config.ts";
import { elementsOf, fromBytesText, type Tensor, toBytesText, unpackTexts } from "../tensors/datatypes.ts";
import { decodedText, firstTextBytes, textBytesIn } from "./prompt-text.ts";
import { configParameter } from "./trt-request.ts";

/** Names of this model's inputs in `preprocessing` and `tensorrt_llm`. */
const TO_PREPROCESSING: Readonly<Record<string, string>> = {
  text_input: "QUERY",
  decoder_text_input: "DECODER_QUERY",
  max_tokens: "REQUEST_OUTPUT_LEN",
  bad_words: "BAD_WORDS_DICT",
  stop_words: "STOP_WORDS_DICT",
  embedding_bias_words: "EMBEDDING_BIAS_WORDS",
  embedding_bias_weights: "EMBEDDING_BIAS_WEIGHTS",
  pad_id: "PAD_ID",
  end_id: "END_ID",
  prompt_table_extra_id: "PROMPT_TABLE_EXTRA_ID",
};
const FROM_PREPROCESSING: Readonly<Record<string, string>> = {
  INPUT_ID: "input_ids",
  REQUEST_INPUT_LEN: "input_lengths",
  REQUEST_OUTPUT_LEN: "request_output_len",
  DECODER_INPUT_ID: "decoder_input_ids",
  REQUEST_DECODER_INPUT_LEN: "decoder_input_lengths",
  BAD_WORDS_IDS: "bad_words_list",
  STOP_WORDS_IDS: "stop_words_list",
  EMBEDDING_BIAS: "embedding_bias",
  OUT_END_ID: "end_id",
  OUT_PAD_ID: "pad_id",
  OUT_PROMPT_TABLE_EXTRA_IDS: "prompt_table_extra_ids",
};
const TO_LLM: Readonly<Record<string, string>> = {
  top_k: "runtime_top_k",
  top_p: "runtime_top_p",
  length_penalty: "len_penalty",
  stream: "streaming",
  // These inputs have the same names in `tensorrt_llm`.
  ...Object.fromEntries(
    [
      ...["temperature", "repetition_penalty", "min_tokens", "presence_penalty", "frequency_penalty", "seed"],
      ...["return_log_probs", "return_context_logits", "return_generation_logits", "return_perf_metrics", "beam_width"],
      ...["return_num_input_tokens", "return_num_output_tokens", "num_return_sequences", "exclude_input_in_output"],
      ...["prompt_embedding_table", "prompt_vocab_size", "lora_task_id", "lora_weights", "lora_config"],
      ...["guided_decoding_guide_type", "guided_decoding_guide"],
    ].map((name) => [name, name]),
  ),
};

export const tensorrtLlmBls: Behaviour = {
  async execute(requests, host) {
    const decoupled = isDecoupled(host.config);
    const responses: ModelResponse[] = [];
    for (const request of requests) {
      const give = (response: ModelResponse) =>
        void (decoupled ? request.send(response, false) : responses.push(response));
      try {
        for await (const response of responsesTo(request, host)) give(response);
      } catch (error) {
        give({ error: { message: `Traceback (most recent call last):\n${(error as Error).message}\n` } });
      }
      if (decoupled) request.send(null, true);
    }
    return decoupled ? null : responses;
  },
};

async function* responsesTo(request: ModelRequest, host: ModelHost): AsyncGenerator<ModelResponse> {
  if (numbersIn(request, "max_tokens").some((count) => count <= 0) || !request.inputs.has("max_tokens"))
    throw new Error("max_tokens must be a single value > 0");
  if (firstNumber(request, "num_draft_tokens", 0) > 0)
    throw new Error("cannot perform speculative decoding without draft model");
  const streamRequest: StreamRequest = { id: request.id, whenCancelled: (act) => request.whenCancelled(act) };
  const before = await firstResponse(host, "preprocessing", renamed(request.inputs, TO_PREPROCESSING), streamRequest);
  const preprocessed = new Map(before.map((tensor) => [tensor.name, tensor]));
  const inputs = [...renamed(preprocessed, FROM_PREPROCESSING), ...renamed(request.inputs, TO_LLM)];
  // An empty tensor means that an option is not set.
  const fitting = inputs.filter(({ shape }) => !shape.includes(0));
  const output = new OutputState(request, host);
  const model = filledParameter(host, "tensorrt_llm_model_name") || "tensorrt_llm";
  for await (const response of host.stream(model, fitting, streamRequest)) {
    const tensors = tensorsOf(response);
    if (tensors.length === 0 || output.isOver(tensors)) continue;
    const ids = output.accumulated(tensors);
    const texts = await firstResponse(host, "postprocessing", ids, streamRequest);
    const text = texts.find(({ name }) => name === "OUTPUT")!;
    const cut = output.cut(tensors, unpackTexts(text.data) ?? []);
    yield outputs(
      textTensor("text_output", [cut.texts.length], cut.texts),
      ...tensors.filter(({ name }) => !IDS.includes(name)),
    );
    if (cut.over) return;
  }
}
const IDS = ["output_ids", "sequence_length"];

/** Returns a parameter, or "" if the configuration still contains the template's placeholder. */
function filledParameter({ config }: ModelHost, name: string): string {
  const value = configParameter(config, name);
  return value.startsWith("${") ? "" : value;
}

const renamed = (tensors: ReadonlyMap<string, Tensor>, names: Readonly<Record<string, string>>): Tensor[] =>
  Object.entries(names).flatMap(([from, to]) => {
    const tensor = tensors.get(from);
    return tensor === undefined ? [] : [{ ...tensor, name: to }];
  });

async function firstResponse(
  host: ModelHost,
  model: string,
  inputs: readonly Tensor[],
  asking: StreamRequest,
): Promise<readonly Tensor[]> {
  for await (const response of host.stream(model, inputs, asking)) return tensorsOf(response);
  return [];
}

function tensorsOf(response: ModelResponse): readonly Tensor[] {
  if ("error" in response) throw new Error(response.error.message);
  return response.outputs;
}

const wholes = (tensors: readonly Tensor[], name: string): number[] => {
  const tensor = tensors.find((tensor) => tensor.name === name);
  return tensor === undefined ? [] : Array.from(elementsOf("INT32", tensor.data) as Int32Array);
};

/** State of the output per sequence: accumulated tokens, and stop words found so far. */
class OutputState {
  readonly #accumulates: boolean;
  readonly #streams: boolean;
  readonly #prompt: string;
  readonly #stopWords: readonly string[];
  readonly #rows: number;
  readonly #tokens = new Map<string, number[]>();
  readonly #begun = new Map<string, string>();
  readonly #over = new Set<string>();

  constructor(request: ModelRequest, host: ModelHost) {
    this.#accumulates = /^(true|yes|1|t)$/i.test(filledParameter(host, "accumulate_tokens"));
    this.#streams = firstNumber(request, "stream", 0) !== 0;
    this.#stopWords = (textsIn(request, "stop_words") ?? []).filter(Boolean).map(fromBytesText);
    // The prompt is needed only to search for stop words after it.
    const isEchoed = firstNumber(request, "exclude_input_in_output", 0) === 0;
    const looksBehind = isEchoed && this.#stopWords.length > 0;
    this.#prompt = looksBehind ? decodedText(firstTextBytes(request, "text_input")) : "";
    this.#rows = Math.max(1, textBytesIn(request, "text_input")?.length ?? 1);
  }

  #keyOf(tensors: readonly Tensor[]): string {
    return `${wholes(tensors, "batch_index")[0] ?? 0}/${wholes(tensors, "sequence_index")[0] ?? 0}`;
  }

  isOver(tensors: readonly Tensor[]): boolean {
    return this.#over.has(this.#keyOf(tensors));
  }

  /** Returns the inputs of `postprocessing`: the new tokens, or with `accumulate_tokens` all tokens so far. */
  accumulated(tensors: readonly Tensor[]): Tensor[] {
    const find = (name: string) => tensors.find((tensor) => tensor.name === name)!;
    const [ids, lengths] = [find("output_ids"), find("sequence_length")];
    const beams = lengths.shape[1] ?? 1;
    if (!this.#accumulates || !this.#streams || beams > 1)
      return [
        { ...ids, name: "TOKENS_BATCH" },
        { ...lengths, name: "SEQUENCE_LENGTH" },
      ];
    const key = this.#keyOf(tensors);
    const all = [...(this.#tokens.get(key) ?? []), ...wholes(tensors, "output_ids")];
    this.#tokens.set(key, all);
    return [
      numberTensor("TOKENS_BATCH", "INT32", [1, 1, all.length], all),
      numberTensor("SEQUENCE_LENGTH", "INT32", [1, 1], [all.length]),
    ];
  }

  /** Cuts each text after its first stop word. `over`: every row has reached a stop word. */
  cut(
    tensors: readonly Tensor[],
    decodedTexts: readonly string[],
  ): { readonly texts: readonly string[]; readonly over: boolean } {
    if (this.#stopWords.length === 0) return { texts: decodedTexts, over: false };
    const key = this.#keyOf(tensors);
    let stopped = 0;
    const texts = decodedTexts.map((bytes, beam) => {
      const text = fromBytesText(bytes);
      const end = this.#streams ? this.#endInStream(`${key}/${beam}`, text) : this.#endIn(text);
      if (end >= 0) stopped++;
      return end < 0 ? bytes : toBytesText(text.slice(0, end));
    });
    if (stopped === decodedTexts.length) this.#over.add(key);
    return { texts, over: this.#over.size >= this.#rows };
  }

  /** Returns the offset after the first stop word of the list that occurs in the answer, or -1. */
  #endIn(text: string): number {
    for (const word of this.#stopWords) {
      const at = text.indexOf(word, this.#prompt.length);
      if (at >= 0) return at + word.length;
    }
    return -1;
  }

  /**
   * Finds a stop word in a stream. As in the real model, finds it only if its pieces come in a row and contain nothing else.
   */
  #endInStream(key: string, text: string): number {
    const begun = (this.#begun.get(key) ?? "") + text;
    const word = this.#stopWords.find((candidate) => candidate.startsWith(begun));
    this.#begun.set(key, word === undefined ? "" : begun);
    return word === begun ? text.length : -1;
  }
}
