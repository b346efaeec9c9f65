/**
 * What does a model of the `vllm` backend answer? Text of the server's one engine, in the tensors of the backend's `model.py`
 * (vllm_backend, January 2026): decoupled, `execute` hands each request over and returns at once.
 */

import type { Lane } from "../../../engine/interface/lanes.ts";
import { Finish, type Receiver, type Submission } from "../../../engine/interface/types.ts";
import { embedding } from "../../../text/answers/embedding.ts";
import type { Vocabulary } from "../../../text/tokens/types.ts";
import { AnswerText } from "../../openai/pipeline/choice.ts";
import { imageIds } from "../../openai/request/images.ts";
import { choiceSeeds, seedOf } from "../../openai/request/sampling.ts";
import type { Behaviour, ModelHost, ModelRequest, TextStream } from "../behaviours/behaviour.ts";
import { firstNumber, firstText, numberTensor, outputs, textsIn, textTensor } from "../behaviours/values.ts";
import { bytesOf, fromBytesText, type Tensor, toBytesText } from "../tensors/datatypes.ts";
import { constrained, generateSequence, type LlmAround, StepNews } from "./around.ts";
import type { LlmCounts, LlmWatch } from "./counts.ts";
import { decodedText, encodeText, firstTextBytes } from "./prompt-text.ts";
import { wordRules } from "./steered.ts";
import { wrongAdapter } from "./vllm-adapters.ts";
import { logprobsText } from "./vllm-logprobs.ts";
import { type SamplingSaid, samplingOf, samplingSaid, tooManyLogprobs, type VllmSampling } from "./vllm-sampling.ts";

const FINISHES: Readonly<Record<Finish, string>> = {
  [Finish.Stop]: "stop",
  [Finish.Length]: "length",
  [Finish.Abort]: "abort",
  [Finish.Error]: "error",
  [Finish.Repetition]: "repetition",
};

export const vllmBehaviour = (around: LlmAround, counts: LlmCounts): Behaviour => ({
  initialize: (host) => counts.loaded(host, "vllm"),
  execute(requests, host) {
    // What cannot be read fails the batch: before any of it is begun or answered.
    const read = requests.map((request) => {
      const said = samplingSaid(request);
      return [request, said, wrongAdapter(said.lora_name ?? null, host)] as const;
    });
    for (const [request, said, missing] of read) {
      if (missing !== null) {
        request.send({ error: { message: missing } }, true);
        continue;
      }
      const answering = request.inputs.has("embedding_request")
        ? embed(request, around)
        : answer(request, said, host, around, counts);
      answering.catch(({ message }: Error) => {
        request.send({ error: { message: `Error generating stream: ${message}` } }, true);
      });
    }
    return null;
  },
});

async function answer(
  request: ModelRequest,
  said: SamplingSaid,
  host: ModelHost,
  around: LlmAround,
  counts: LlmCounts,
): Promise<void> {
  const { text } = around;
  const streams = firstNumber(request, "stream", 0) !== 0;
  const echoes = firstNumber(request, "exclude_input_in_output", streams ? 1 : 0) === 0;
  const images = imagesOf(request, around);
  if (streams && echoes) throw new Error("When streaming, `exclude_input_in_output` = False is not allowed.");
  const sampling = samplingOf(said, host.name, around);
  const tooMany = tooManyLogprobs(sampling, text.vocabulary.size);
  if (tooMany !== null) throw new Error(tooMany);
  const arrivalUs = around.backend.nowUs();
  const prompt = firstTextBytes(request, "text_input");
  const promptIds = await encodeText(around, prompt, images);
  if (promptIds.length === 0) throw new Error("The decoder prompt cannot be empty");
  const tooLong = tooLongFor(promptIds.length, around.maxModelLen);
  if (tooLong !== null) throw new Error(tooLong);
  const { n } = sampling;
  const seeds = choiceSeeds(seedOf(sampling, promptIds, around.nextSeed), n);
  const [made, steering] = await Promise.all([
    constrained(around, sampling.structure, seeds),
    wordRules(around, sampling),
  ]);
  if (request.cancelled) return request.send(CANCELLED, true);
  const heard = { count: n, left: n };
  const shown = { streams, before: echoes ? decodedText(prompt) : "", promptTokens: promptIds.length };
  const siblings = { count: n, left: n, longest: 0 };
  const watch = () => counts.watch(host, heard, promptIds.length, arrivalUs);
  const answering = new Answer(request, around, sampling, shown, seeds, watch);
  for (const [at, choice] of answering.choices.entries()) {
    const wanted = {
      id: request.id === "" || at > 0 ? "" : request.id,
      promptIds,
      maxTokens: sampling.maxTokens,
      minTokens: sampling.minTokens,
      ignoreEos: sampling.ignoreEos,
      stopTokenIds: sampling.stopTokenIds,
      seed: seeds[at]!,
      steering,
      written: made[at]!,
      salt: sampling.lora ?? "",
      ...(n > 1 ? { choices: siblings } : {}),
    };
    choice.submission = generateSequence(around, wanted, choice);
  }
  request.whenCancelled(() => answering.cancel());
}
const CANCELLED = { error: { message: "Request was cancelled", code: "CANCELLED" } } as const;

/** Most numbers of one vector. */
const DIMENSIONS_MOST = 65_536;

/** Only the OpenAI front end asks for a vector: it stands in the text, as JSON. */
async function embed(request: ModelRequest, { text, embeddingSize }: LlmAround): Promise<void> {
  const asked = JSON.parse(fromBytesText(firstText(request, "embedding_request"))) as {
    readonly input: string | readonly number[];
    readonly pooling_params?: { readonly dimensions?: readonly [number] };
  };
  const { input, pooling_params: pooling } = asked;
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

/** vLLM 0.33, `v1/engine/input_processor.py`. */
function tooLongFor(length: number, most: number): string | null {
  const advice = "Make sure that `max_model_len` is no smaller than the number of text tokens";
  const prompt = `The decoder prompt (length ${length})`;
  if (length > most) return `${prompt} is longer than the maximum model length of ${most}. ${advice}.`;
  if (length < most) return null;
  return `${prompt} plus the number of requested output tokens (at least 1) is longer than the maximum model length of ${most}. ${advice} (prompt + requested output tokens).`;
}

/** Ids in front of the prompt; throws where the model takes none. */
function imagesOf(request: ModelRequest, { imageTokens, text }: LlmAround): number[] {
  const images = (textsIn(request, "image") ?? []).filter(Boolean);
  if (images.length === 0) return [];
  if (imageTokens === null) throw new Error("At most 0 image(s) may be provided in one prompt.");
  const broken = images.find((image) => !/^[A-Za-z0-9+/\s]+={0,2}\s*$/.test(image));
  if (broken !== undefined) throw new Error("Incorrect padding");
  return images.flatMap((image) => imageIds(image, imageTokens, text.vocabulary));
}

interface HowShown {
  readonly streams: boolean;
  /** Stands before the first text of each choice. */
  readonly before: string;
  readonly promptTokens: number;
}

/** All choices of a request, which share its responses. */
class Answer {
  readonly choices: readonly Choice[];
  readonly together: StepNews;
  /** Responses hold a piece of one text and nothing else. */
  readonly isPlain: boolean;
  readonly #request: ModelRequest;
  readonly #around: LlmAround;
  readonly #how: HowShown;
  readonly #logprobs: number | null;
  readonly #wishes: ReadonlySet<string>;
  #first = true;

  constructor(
    request: ModelRequest,
    around: LlmAround,
    sampling: VllmSampling,
    how: HowShown,
    seeds: readonly number[],
    watch: () => LlmWatch,
  ) {
    this.#request = request;
    this.#around = around;
    this.#how = how;
    this.#logprobs = sampling.logprobs;
    this.#wishes = new Set(WISHES.filter((name) => firstNumber(request, `return_${name}`, 0) !== 0));
    const keepsIds =
      this.#logprobs !== null && (this.#wishes.has("logprobs") || this.#wishes.has("cumulative_logprob"));
    this.together = new StepNews(sampling.n, how.streams, (ended) => request.send(this.#response(), ended));
    this.isPlain = sampling.n === 1 && how.streams && this.#wishes.size === 0 && sampling.stop.length === 0;
    this.choices = seeds.map((seed) => new Choice(this, around, sampling, { seed, keepsIds, watch: watch() }));
  }

  /** Where pieces go by themselves. */
  plainText(): TextStream | null {
    return this.isPlain ? this.#request.plainText("text_output") : null;
  }

  cancel(): void {
    if (this.choices.every(({ over }) => over)) return;
    for (const choice of this.choices) choice.cancel();
    this.#request.send(CANCELLED, true);
  }

  #response() {
    const { before, promptTokens } = this.#how;
    const { choices } = this;
    const wants = this.#wishes;
    const shape = [choices.length];
    const prefix = this.#first ? before : "";
    this.#first = false;
    const tensors = [
      textTensor(
        "text_output",
        shape,
        choices.map((one) => toBytesText(prefix + one.text.take(one.finish))),
      ),
    ];
    if (wants.has("finish_reason"))
      tensors.push(
        textTensor(
          "finish_reason",
          shape,
          choices.map(({ finish }) => (finish === null ? "None" : FINISHES[finish])),
        ),
      );
    if (this.#logprobs !== null && choices[0]!.keepsIds)
      for (const choice of choices) choice.weigh(this.#around, this.#logprobs);
    if (wants.has("cumulative_logprob"))
      tensors.push(
        numberTensor(
          "cumulative_logprob",
          "FP32",
          shape,
          choices.map((one) => (this.#logprobs === null ? Number.NaN : one.sum)),
        ),
      );
    if (wants.has("logprobs"))
      tensors.push(
        textTensor(
          "logprobs",
          shape,
          choices.map((one) => one.takeLogprobs()),
        ),
      );
    if (wants.has("num_input_tokens")) tensors.push(countTensor("num_input_tokens", [promptTokens]));
    if (wants.has("num_output_tokens"))
      tensors.push(
        countTensor(
          "num_output_tokens",
          choices.map((one) => one.takeCount()),
        ),
      );
    return outputs(...tensors);
  }
}
const WISHES = ["finish_reason", "cumulative_logprob", "logprobs", "num_input_tokens", "num_output_tokens"];

interface ChoiceFacts {
  readonly seed: number;
  readonly keepsIds: boolean;
  readonly watch: LlmWatch;
}

class Choice implements Receiver {
  submission: Submission | null = null;
  finish: Finish | null = null;
  /** Sum of the log probabilities so far. */
  sum = 0;
  readonly text: AnswerText;
  readonly keepsIds: boolean;
  readonly #answer: Answer;
  readonly #seed: number;
  readonly #watch: LlmWatch;
  readonly #vocabulary: Vocabulary;
  readonly streams: boolean;
  #plain: TextStream | null = null;
  #lane: Lane | null = null;
  /** Tokens that were told of. */
  #told = 0;
  /** Tokens whose log probabilities are to be told. */
  #ids: number[] = [];
  #weighed = 0;
  #logprobs: string[] | null = null;

  constructor(answer: Answer, { text }: LlmAround, sampling: VllmSampling, { seed, keepsIds, watch }: ChoiceFacts) {
    this.#answer = answer;
    this.#seed = seed;
    this.#watch = watch;
    this.keepsIds = keepsIds;
    this.#vocabulary = text.vocabulary;
    this.streams = answer.together.streams;
    this.text = new AnswerText(text.vocabulary, {
      skipSpecialTokens: sampling.skipSpecial,
      includeStopStrInOutput: sampling.includeStop,
      stop: sampling.stop,
      minTokens: sampling.minTokens,
    });
  }

  get over(): boolean {
    return this.finish !== null;
  }

  onTokens(ids: Int32Array, at: number, count: number, ended: Finish | null): void {
    if (this.over || (count === 1 && ended === null && this.#wentPlain(ids[at]!))) return;
    const before = this.text.tokens;
    const stop = this.text.accept(ids, at, count, ended);
    if (stop !== null && ended === null) this.submission?.finish(Finish.Stop, this.text.tokens);
    const made = this.text.tokens - before;
    if (this.keepsIds) for (let i = at; i < at + made; i++) this.#ids.push(ids[i]!);
    this.finish = stop === null ? ended : Finish.Stop;
    this.#watch.tokens(made, this.text.tokens, this.finish !== null);
    if (this.over || this.streams) this.#answer.together.news(this.over);
    if (!this.over && this.#plain === null && this.#answer.isPlain) this.#begin();
  }

  /** From now on tokens need no responses. */
  #begin(): void {
    const plain = this.#answer.plainText();
    this.#plain = plain;
    if (!plain?.lane) return;
    const { end, prefix, suffix } = plain.lane;
    this.#lane = this.submission?.lane?.(this, end, prefix, suffix) ?? null;
    if (this.#lane !== null) this.#watch.follows(() => this.submission?.settle?.());
  }

  /** The hot path: one token whose text stands by itself, for a client that keeps up. */
  #wentPlain(id: number): boolean {
    const plain = this.#plain;
    if (plain === null || plain.full || !this.text.idle) return false;
    const piece = this.text.plain(id, plain.escaped);
    if (piece === undefined || (plain.escaped && hasCode(piece))) return false;
    this.text.tokens++;
    this.#watch.tokens(1, this.text.tokens, false);
    plain.write(piece);
    this.#lane?.goOn(id, this.#vocabulary.isSpecial(id) ? NOTHING : piece);
    return true;
  }

  went(tokens: number): void {
    this.text.tokens += tokens;
    this.#watch.went(tokens, this.#lane!);
  }

  cancel(): void {
    if (this.over) return;
    this.finish = Finish.Abort;
    this.submission?.cancel();
    this.#watch.left();
  }

  takeCount(): number {
    const made = this.text.tokens - this.#told;
    this.#told = this.text.tokens;
    return made;
  }

  /** Makes the log probabilities of the tokens that came, with so many candidates. */
  weigh({ logprobs, text }: LlmAround, candidates: number): void {
    this.#logprobs ??= [];
    for (const id of this.#ids) {
      const made = logprobs(this.#seed, id, this.#weighed++, candidates);
      this.sum += made.logprob;
      this.#logprobs.push(logprobsText(id, made, text.vocabulary));
    }
    this.#ids = [];
  }

  takeLogprobs(): string {
    if (this.#logprobs === null) return "null";
    const shown = `[${this.#logprobs.join(", ")}]`;
    this.#logprobs = [];
    return shown;
  }
}

const NOTHING = new Uint8Array();

/** A character is written as `\\u001B`, whose letters Triton has large. */
function hasCode(piece: Uint8Array): boolean {
  for (let at = piece.indexOf(92); at >= 0; at = piece.indexOf(92, at + 2)) if (piece[at + 1] === 117) return true;
  return false;
}

const countTensor = (name: string, values: readonly number[]): Tensor => ({
  name,
  datatype: "UINT32",
  shape: [values.length],
  data: bytesOf(Uint32Array.from(values)),
});
