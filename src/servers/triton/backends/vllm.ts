/**
 * Implements the `vllm` backend: text of the server's only engine, in the tensors of the backend's `model.py` (vllm_backend,
 * January 2026). Decoupled: `execute` returns at once.
 */

import type { Lane } from "../../../engine/interface/lanes.ts";
import { Finish, type Receiver, type Submission } from "../../../engine/interface/types.ts";
import { embedding } from "../../../text/answers/embedding.ts";
import { distinctIds } from "../../../text/answers/id-set.ts";
import type { Vocabulary } from "../../../text/tokens/types.ts";
import { AnswerText } from "../../openai/pipeline/choice.ts";
import { imageIds } from "../../openai/request/images.ts";
import { choiceSeeds, seedOf } from "../../openai/request/sampling.ts";
import type { Behaviour, ModelHost, ModelRequest, TextStream } from "../behaviours/behaviour.ts";
import { firstNumber, firstText, numberTensor, outputs, textsIn, textTensor } from "../behaviours/values.ts";
import { fromBytesText, type Tensor, toBytesText } from "../tensors/datatypes.ts";
import { constrained, generateSequence, type LlmDeps, StepNotifier } from "./around.ts";
import type { LlmCounts, TokenObserver } from "./counts.ts";
import { decodedText, encodeText, firstTextBytes } from "./prompt-text.ts";
import { wordRules } from "./steered.ts";
import { wrongAdapter } from "./vllm-adapters.ts";
import { logprobsText } from "./vllm-logprobs.ts";
import {
  type SamplingParameters,
  samplingOf,
  samplingParametersOf,
  tooManyLogprobs,
  type VllmSampling,
} from "./vllm-sampling.ts";

const FINISHES: Readonly<Record<Finish, string>> = {
  [Finish.Stop]: "stop",
  [Finish.Length]: "length",
  [Finish.Abort]: "abort",
  [Finish.Error]: "error",
  [Finish.Repetition]: "repetition",
};

export const vllmBehaviour = (deps: LlmDeps, counts: LlmCounts): Behaviour => ({
  initialize: (host) => counts.loaded(host, "vllm"),
  execute(requests, host) {
    // A malformed request fails the whole batch, so that all are parsed before any is started or answered.
    const read = requests.map((request) => {
      const parameters = samplingParametersOf(request);
      return [request, parameters, wrongAdapter(parameters.lora_name ?? null, host)] as const;
    });
    for (const [request, parameters, missing] of read) {
      if (missing !== null) {
        request.send({ error: { message: missing } }, true);
        continue;
      }
      const answering = request.inputs.has("embedding_request")
        ? embed(request, deps)
        : answer(request, parameters, host, deps, counts);
      answering.catch(({ message }: Error) => {
        request.send({ error: { message: `Error generating stream: ${message}` } }, true);
      });
    }
    return null;
  },
});

async function answer(
  request: ModelRequest,
  parameters: SamplingParameters,
  host: ModelHost,
  deps: LlmDeps,
  counts: LlmCounts,
): Promise<void> {
  const { text } = deps;
  const streams = firstNumber(request, "stream", 0) !== 0;
  const echoes = firstNumber(request, "exclude_input_in_output", streams ? 1 : 0) === 0;
  const images = imagesOf(request, deps);
  if (streams && echoes) throw new Error("When streaming, `exclude_input_in_output` = False is not allowed.");
  const sampling = samplingOf(parameters, host.name, deps);
  const tooMany = tooManyLogprobs(sampling, text.vocabulary.size);
  if (tooMany !== null) throw new Error(tooMany);
  const arrivalUs = deps.backend.nowUs();
  const prompt = firstTextBytes(request, "text_input");
  const promptIds = await encodeText(deps, prompt, images);
  if (promptIds.length === 0) throw new Error("The decoder prompt cannot be empty");
  const tooLong = tooLongFor(promptIds.length, deps.maxModelLen);
  if (tooLong !== null) throw new Error(tooLong);
  const { n, limits } = sampling;
  const stopTokenIds = distinctIds(limits.stopTokenIds, text.vocabulary.size);
  const seeds = choiceSeeds(seedOf(sampling, promptIds, deps.nextSeed), n);
  const [made, steering] = await Promise.all([constrained(deps, sampling.structure, seeds), wordRules(deps, sampling)]);
  if (request.cancelled) return request.send(CANCELLED, true);
  const counted = { count: n, left: n };
  const outputOptions = { streams, before: echoes ? decodedText(prompt) : "", promptTokens: promptIds.length };
  const siblings = { count: n, left: n, longest: 0 };
  const watch = () => counts.watch(host, counted, promptIds.length, arrivalUs);
  const answering = new Answer(request, deps, sampling, outputOptions, seeds, watch);
  for (const [at, choice] of answering.choices.entries()) {
    const sequence = {
      ...sampling.limits,
      stopTokenIds,
      id: at > 0 ? "" : request.id,
      promptIds,
      seed: seeds[at]!,
      steering,
      written: made[at]!,
      cacheSalt: sampling.lora ?? "",
      ...(n > 1 ? { choices: siblings } : {}),
    };
    choice.submission = generateSequence(deps, sequence, choice);
  }
  request.whenCancelled(() => answering.cancel());
}
const CANCELLED = { error: { message: "Request was cancelled", code: "CANCELLED" } } as const;

/** Most dimensions of an embedding. */
const DIMENSIONS_MOST = 65_536;

/** Answers a request for an embedding, which only the OpenAI front end sends. The vector is JSON in `text_output`. */
async function embed(request: ModelRequest, { text, embeddingSize }: LlmDeps): Promise<void> {
  const embeddingRequest = JSON.parse(fromBytesText(firstText(request, "embedding_request"))) as {
    readonly input: string | readonly number[];
    readonly pooling_params?: { readonly dimensions?: readonly [number] };
  };
  const { input, pooling_params: pooling } = embeddingRequest;
  if (embeddingSize === null) throw new Error("The model does not support embeddings");
  const size = pooling?.dimensions?.[0] ?? embeddingSize;
  if (!(size >= 1 && size <= DIMENSIONS_MOST)) throw new Error(`Dimensions must be from 1 to ${DIMENSIONS_MOST}`);
  const ids = typeof input === "string" ? await text.encoder.encode([input], true, true) : Uint32Array.from(input);
  const vector = embedding(ids, size, 0);
  const wants = (name: string) => firstNumber(request, `return_${name}`, 0) !== 0;
  const tensors = [textTensor("text_output", [1], [JSON.stringify([...vector])])];
  if (wants("num_input_tokens")) tensors.push(countTensor("num_input_tokens", [ids.length]));
  if (wants("num_output_tokens")) tensors.push(countTensor("num_output_tokens", [0]));
  request.send(outputs(...tensors), true);
}

/** Returns the error for a prompt that is too long, or null. Source: `v1/engine/input_processor.py` of vLLM 0.33. */
function tooLongFor(length: number, most: number): string | null {
  const advice = "Make sure that `max_model_len` is no smaller than the number of text tokens";
  const prompt = `The decoder prompt (length ${length})`;
  if (length > most) return `${prompt} is longer than the maximum model length of ${most}. ${advice}.`;
  if (length < most) return null;
  return `${prompt} plus the number of requested output tokens (at least 1) is longer than the maximum model length of ${most}. ${advice} (prompt + requested output tokens).`;
}

/** Returns the image tokens that precede the prompt. Throws if the model accepts no images. */
function imagesOf(request: ModelRequest, { imageTokens, text }: LlmDeps): number[] {
  const images = (textsIn(request, "image") ?? []).filter(Boolean);
  if (images.length === 0) return [];
  if (imageTokens === null) throw new Error("At most 0 image(s) may be provided in one prompt.");
  const broken = images.find((image) => !/^[A-Za-z0-9+/\s]+={0,2}\s*$/.test(image));
  if (broken !== undefined) throw new Error("Incorrect padding");
  return images.flatMap((image) => imageIds(image, imageTokens, text.vocabulary));
}

interface OutputOptions {
  readonly streams: boolean;
  /** Text that precedes the first text of each choice. */
  readonly before: string;
  readonly promptTokens: number;
}

/** All choices of a request, which share its responses. */
class Answer {
  readonly choices: readonly Choice[];
  readonly together: StepNotifier;
  /** True if each response contains only a piece of one text, so that pieces need no response objects. */
  readonly isPlain: boolean;
  readonly #logprobs: number | null;
  readonly #requestedOutputs: ReadonlySet<string>;
  #first = true;

  constructor(
    private readonly request: ModelRequest,
    private readonly deps: LlmDeps,
    sampling: VllmSampling,
    private readonly how: OutputOptions,
    seeds: readonly number[],
    watch: () => TokenObserver,
  ) {
    this.#logprobs = sampling.logprobs;
    this.#requestedOutputs = new Set(
      OPTIONAL_OUTPUTS.filter((name) => firstNumber(request, `return_${name}`, 0) !== 0),
    );
    const keepsIds =
      this.#logprobs !== null &&
      (this.#requestedOutputs.has("logprobs") || this.#requestedOutputs.has("cumulative_logprob"));
    this.together = new StepNotifier(sampling.n, how.streams, (ended) => request.send(this.#response(), ended));
    this.isPlain = sampling.n === 1 && how.streams && this.#requestedOutputs.size === 0 && sampling.stop.length === 0;
    this.choices = seeds.map((seed) => new Choice(this, deps, sampling, seed, keepsIds, watch()));
  }

  /** Returns the sink for pieces of text, or null. */
  textStream(): TextStream | null {
    return this.isPlain ? this.request.plainText("text_output") : null;
  }

  cancel(): void {
    if (this.choices.every(({ over }) => over)) return;
    for (const choice of this.choices) choice.cancel();
    this.request.send(CANCELLED, true);
  }

  #response() {
    const { before, promptTokens } = this.how;
    const { choices } = this;
    const requested = this.#requestedOutputs;
    const shape = [choices.length];
    const prefix = this.#first ? before : "";
    this.#first = false;
    const texts = (name: string, of: (choice: Choice) => string) => textTensor(name, shape, choices.map(of));
    const tensors = [texts("text_output", ({ text, finish }) => toBytesText(prefix + text.take(finish)))];
    if (requested.has("finish_reason"))
      tensors.push(texts("finish_reason", ({ finish }) => (finish === null ? "None" : FINISHES[finish])));
    if (this.#logprobs !== null && choices[0]!.keepsIds)
      for (const choice of choices) choice.addLogprobs(this.deps, this.#logprobs);
    if (requested.has("cumulative_logprob")) {
      const sums = choices.map(({ sum }) => (this.#logprobs === null ? Number.NaN : sum));
      tensors.push(numberTensor("cumulative_logprob", "FP32", shape, sums));
    }
    if (requested.has("logprobs")) tensors.push(texts("logprobs", (choice) => choice.takeLogprobs()));
    if (requested.has("num_input_tokens")) tensors.push(countTensor("num_input_tokens", [promptTokens]));
    const takenCounts = () => choices.map((choice) => choice.takeCount());
    if (requested.has("num_output_tokens")) tensors.push(countTensor("num_output_tokens", takenCounts()));
    return outputs(...tensors);
  }
}
const OPTIONAL_OUTPUTS = ["finish_reason", "cumulative_logprob", "logprobs", "num_input_tokens", "num_output_tokens"];

class Choice implements Receiver {
  submission: Submission | null = null;
  finish: Finish | null = null;
  /** Sum of the log probabilities so far. */
  sum = 0;
  readonly text: AnswerText;
  readonly #vocabulary: Vocabulary;
  readonly streams: boolean;
  #stream: TextStream | null = null;
  #lane: Lane | null = null;
  /** Number of tokens that responses have counted. */
  #countedTokens = 0;
  /** Tokens whose log probabilities are not computed yet. */
  #ids: number[] = [];
  #logprobCount = 0;
  #logprobs: string[] | null = null;

  constructor(
    private readonly answer: Answer,
    { text }: LlmDeps,
    sampling: VllmSampling,
    private readonly seed: number,
    readonly keepsIds: boolean,
    private readonly watch: TokenObserver,
  ) {
    this.#vocabulary = text.vocabulary;
    this.streams = answer.together.streams;
    this.text = new AnswerText(text.vocabulary, {
      skipSpecialTokens: sampling.skipSpecial,
      includeStopStrInOutput: sampling.includeStop,
      stop: sampling.stop,
      minTokens: sampling.limits.minTokens,
    });
  }

  get over(): boolean {
    return this.finish !== null;
  }

  onTokens(ids: Int32Array, at: number, count: number, ended: Finish | null): void {
    if (this.over || (count === 1 && ended === null && this.#sendPiece(ids[at]!))) return;
    const before = this.text.tokens;
    const stop = this.text.accept(ids, at, count, ended);
    if (stop !== null && ended === null) this.submission?.finish(Finish.Stop, this.text.tokens);
    const made = this.text.tokens - before;
    if (this.keepsIds) for (let i = at; i < at + made; i++) this.#ids.push(ids[i]!);
    this.finish = stop === null ? ended : Finish.Stop;
    this.watch.tokens(made, this.text.tokens, this.finish !== null);
    if (this.over || this.streams) this.answer.together.report(this.over);
    if (!this.over && this.#stream === null && this.answer.isPlain) this.#beginPieces();
  }

  /** Sends pieces of text without response objects from now on, if the request allows it. */
  #beginPieces(): void {
    const plain = this.answer.textStream();
    this.#stream = plain;
    if (!plain?.lane) return;
    const { end, prefix, suffix } = plain.lane;
    this.#lane = this.submission?.lane?.(this, end, prefix, suffix) ?? null;
    if (this.#lane !== null) this.watch.followLane(() => this.submission?.settle?.());
  }

  /**
   * Hot path: sends one token as a piece of text if its text is complete and the client keeps up. Returns false if a response
   * is needed.
   */
  #sendPiece(id: number): boolean {
    const plain = this.#stream;
    if (plain === null || plain.full || !this.text.idle) return false;
    const piece = this.text.plain(id, plain.escaped);
    if (piece === undefined || (plain.escaped && hasUnicodeEscape(piece))) return false;
    this.text.tokens++;
    this.watch.tokens(1, this.text.tokens, false);
    plain.write(piece);
    this.#lane?.goOn(id, this.#vocabulary.isSpecial(id) ? NOTHING : piece);
    return true;
  }

  went(tokens: number): void {
    this.text.tokens += tokens;
    this.watch.countLaneTokens(tokens, this.#lane!);
  }

  cancel(): void {
    if (this.over) return;
    this.finish = Finish.Abort;
    this.submission?.cancel();
    this.watch.stop();
  }

  takeCount(): number {
    const made = this.text.tokens - this.#countedTokens;
    this.#countedTokens = this.text.tokens;
    return made;
  }

  /** Computes the log probabilities of the new tokens, with this number of candidates. */
  addLogprobs({ logprobs, text }: LlmDeps, candidates: number): void {
    this.#logprobs ??= [];
    for (const id of this.#ids) {
      const made = logprobs(this.seed, id, this.#logprobCount++, candidates);
      this.sum += made.logprob;
      this.#logprobs.push(logprobsText(id, made, text.vocabulary));
    }
    this.#ids = [];
  }

  takeLogprobs(): string {
    if (this.#logprobs === null) return "null";
    const text = `[${this.#logprobs.join(", ")}]`;
    this.#logprobs = [];
    return text;
  }
}

const NOTHING = new Uint8Array();

/**
 * Reports whether the piece contains a `\\u` escape. Triton writes its hexadecimal digits in capitals, so that a response must
 * be made.
 */
function hasUnicodeEscape(piece: Uint8Array): boolean {
  for (let at = piece.indexOf(92); at >= 0; at = piece.indexOf(92, at + 2)) if (piece[at + 1] === 117) return true;
  return false;
}

const countTensor = (name: string, values: readonly number[]): Tensor =>
  numberTensor(name, "UINT32", [values.length], values);
