/**
 * What does a model of the `vllm` backend answer? Text of the server's one engine, in the tensors of the backend's `model.py`
 * (vllm_backend, January 2026): decoupled, `execute` hands each request over and returns at once.
 */
import { AnswerText } from "../../answer/text.ts";
import type { NaturalLength } from "../../content/output-lengths.ts";
import type { TextModel } from "../../content/text-model.ts";
import { Finish, type Receiver, type Submission } from "../../engine/types.ts";
import type { Backend } from "../../front/front.ts";
import { seedOf } from "../../generation/seeds.ts";
import type { Behaviour, ModelHost, ModelRequest, ModelResponse } from "../behaviours/behaviour.ts";
import { firstNumber, firstText, outputs, textTensor } from "../behaviours/values.ts";
import { bytesOf, fromBytesText, type Tensor, toBytesText } from "../tensors/datatypes.ts";

export interface LlmAround {
  readonly backend: Pick<Backend, "submit" | "nowUs">;
  readonly text: Pick<TextModel, "encoder" | "vocabulary">;
  readonly naturalLength: NaturalLength;
  readonly nextSeed: () => number;
  /** Tokens of prompt and answer together. */
  readonly maxModelLen: number;
}

/** How often the client is looked after where no token comes. */
const LOOK_MS = 100;
/** vLLM's own default of `max_tokens`. */
const TOKENS = 16;
const FINISHES: Readonly<Record<Finish, string>> = {
  [Finish.Stop]: "stop",
  [Finish.Length]: "length",
  [Finish.Abort]: "abort",
  [Finish.Error]: "error",
  [Finish.Repetition]: "repetition",
};

export const vllmBehaviour = (around: LlmAround): Behaviour => ({
  execute(requests, host) {
    for (const request of requests)
      void answer(request, host, around).catch((error: Error) => {
        const failure = { error: { message: `Error generating stream: ${error.message}` } };
        request.send(failure, true);
      });
    return null;
  },
});

interface Sampling {
  readonly maxTokens: number;
  readonly minTokens: number;
  readonly ignoreEos: boolean;
  readonly seed: number | null;
  readonly temperature: number;
  readonly stop: readonly string[];
}

async function answer(request: ModelRequest, host: ModelHost, around: LlmAround): Promise<void> {
  const streams = firstNumber(request, "stream", 0) !== 0;
  const echoes = firstNumber(request, "exclude_input_in_output", streams ? 1 : 0) === 0;
  if (streams && echoes) throw new Error("When streaming, `exclude_input_in_output` = False is not allowed.");
  const sampling = samplingOf(request);
  const prompt = fromBytesText(firstText(request, "text_input"));
  const promptIds = await around.text.encoder.encode([prompt], false, true);
  if (promptIds.length === 0) throw new Error("The decoder prompt cannot be empty");
  const tooLong = tooLongFor(promptIds.length, around.maxModelLen);
  if (tooLong !== null) throw new Error(tooLong);
  const seed = seedOf(sampling, promptIds, around.nextSeed);
  const choice = new Choice(request, around, sampling, {
    streams,
    before: echoes ? prompt : "",
    promptTokens: promptIds.length,
  });
  const submitted = around.backend.submit(
    {
      ...(request.id === "" ? {} : { id: request.id }),
      promptIds,
      maxTokens: Math.min(sampling.maxTokens, around.maxModelLen - promptIds.length),
      minTokens: sampling.minTokens,
      ignoreEos: sampling.ignoreEos,
      plannedTokens: sampling.ignoreEos ? null : around.naturalLength(seed),
      stopTokenIds: [],
      seed,
      priority: 0,
      cacheSalt: "",
      skipReadingPrefixCache: false,
      arrivalUs: around.backend.nowUs(),
    },
    choice,
  );
  if ("refused" in submitted) throw new Error(`the engine is ${submitted.refused}`);
  choice.submission = submitted;
  while (!choice.over) {
    await host.sleep(LOOK_MS);
    choice.look();
  }
}

/** vLLM 0.33, `v1/engine/input_processor.py`. */
function tooLongFor(length: number, most: number): string | null {
  const advice = "Make sure that `max_model_len` is no smaller than the number of text tokens";
  const prompt = `The decoder prompt (length ${length})`;
  if (length > most) return `${prompt} is longer than the maximum model length of ${most}. ${advice}.`;
  if (length < most) return null;
  return `${prompt} plus the number of requested output tokens (at least 1) is longer than the maximum model length of ${most}. ${advice} (prompt + requested output tokens).`;
}

/** The tensor, else all parameters of the request. Numbers may be texts; names that nobody reads say nothing. Words of vLLM 0.33's `sampling_params.py`. */
function samplingOf(request: ModelRequest): Sampling {
  const text = request.inputs.has("sampling_parameters")
    ? firstText(request, "sampling_parameters")
    : request.parameters;
  const said: unknown = JSON.parse(fromBytesText(text));
  if (typeof said !== "object" || said === null) throw new Error("sampling parameters are a JSON object");
  const { stop = [], ignore_eos: ignoreEos = false, ...more } = said as Record<string, unknown>;
  const number = (name: string, least: number, otherwise: number, wrong: string, named = false): number => {
    const value = Number(more[name] ?? otherwise);
    const suffix = named ? ` (parameter=${name}, value=${value})` : "";
    if (!(value >= least)) throw new Error(`${name} must be ${wrong}, got ${value}.${suffix}`);
    return value;
  };
  const maxTokens = Math.trunc(number("max_tokens", 1, TOKENS, "at least 1", true));
  const minTokens = Math.trunc(number("min_tokens", 0, 0, "greater than or equal to 0"));
  if (minTokens > maxTokens)
    throw new Error(`min_tokens must be less than or equal to max_tokens=${maxTokens}, got ${minTokens}.`);
  return {
    maxTokens,
    minTokens,
    ignoreEos: ignoreEos === true,
    seed: more.seed === undefined || more.seed === null ? null : number("seed", -Infinity, 0, "a number"),
    temperature: number("temperature", 0, 1, "non-negative", true),
    stop: (Array.isArray(stop) ? stop : [stop]).map(String).filter(Boolean),
  };
}

interface HowShown {
  readonly streams: boolean;
  /** Stands before the answer. */
  readonly before: string;
  readonly promptTokens: number;
}

class Choice implements Receiver {
  submission: Submission | null = null;
  over = false;
  readonly #request: ModelRequest;
  readonly #how: HowShown;
  readonly #text: AnswerText;
  /** Tokens that were told of. */
  #sent = 0;
  readonly #finishes: boolean;
  readonly #counts: { readonly input: boolean; readonly output: boolean };

  constructor(request: ModelRequest, { text }: LlmAround, sampling: Sampling, how: HowShown) {
    this.#request = request;
    this.#how = how;
    const { stop, minTokens } = sampling;
    this.#text = new AnswerText(text.vocabulary, {
      skipSpecialTokens: true,
      includeStopStrInOutput: false,
      stop,
      minTokens,
    });
    const wants = (name: string) => firstNumber(request, `return_${name}`, 0) !== 0;
    this.#finishes = wants("finish_reason");
    this.#counts = { input: wants("num_input_tokens"), output: wants("num_output_tokens") };
  }

  onTokens(ids: Int32Array, at: number, count: number, ended: Finish | null): void {
    if (this.over || this.look()) return;
    const stop = this.#text.accept(ids, at, count, ended);
    if (stop !== null && ended === null) this.submission?.finish(Finish.Stop, this.#text.tokens);
    const finish = stop === null ? ended : Finish.Stop;
    if (finish === null && !this.#how.streams) return;
    this.over = finish !== null;
    this.#request.send(this.#response(finish), this.over);
  }

  /** True: the client is gone, and so is the request. */
  look(): boolean {
    if (this.over || !this.#request.cancelled) return false;
    this.over = true;
    this.submission?.cancel();
    this.#request.send({ error: { message: "Request was cancelled", code: "CANCELLED" } }, true);
    return true;
  }

  #response(finish: Finish | null): ModelResponse {
    const { before, promptTokens } = this.#how;
    const made = this.#text.tokens - this.#sent;
    this.#sent = this.#text.tokens;
    const said = textTensor("text_output", [1], [toBytesText(before + this.#text.take(finish))]);
    return outputs(
      said,
      ...(this.#finishes ? [textTensor("finish_reason", [1], [finish === null ? "None" : FINISHES[finish]])] : []),
      ...(this.#counts.input ? [countTensor("num_input_tokens", promptTokens)] : []),
      ...(this.#counts.output ? [countTensor("num_output_tokens", made)] : []),
    );
  }
}

const countTensor = (name: string, value: number): Tensor => ({
  name,
  datatype: "UINT32",
  shape: [1],
  data: bytesOf(Uint32Array.of(value)),
});
