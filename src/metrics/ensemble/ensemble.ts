/**
 * Counts the generations like a Triton server with the TensorRT-LLM ensemble. Each generation is one request to
 * `ensemble`, whose steps are `preprocessing`, `tensorrt_llm` and, once per response, `postprocessing`.
 * docs/reference/triton-metrics.md explains the counting, with sources.
 */
import type { RequestMeter, RequestMeters } from "../../engine/interface/request-meter.ts";
import { Finish, type Generation } from "../../engine/interface/types.ts";
import { MeterField, ModelWord, modelWidth } from "./model-numbers.ts";
import { TritonModel } from "./models.ts";
import type { QuantileTarget } from "./quantiles.ts";

/** The models, in the order of their numbers. */
export const ENSEMBLE = ["ensemble", "postprocessing", "preprocessing", "tensorrt_llm"] as const;
type Models = Readonly<Record<(typeof ENSEMBLE)[number], TritonModel>>;

/** Returns how many numbers an ensemble has if its summaries have this many quantiles. */
export const ensembleWidth = (quantiles: number) => MeterField.models + ENSEMBLE.length * modelWidth(quantiles);

/** Marks with 1 the numbers of an ensemble that can fall. */
export function ensembleGauges(width: number): Uint8Array {
  const gauges = new Uint8Array(width);
  if (width === 0) return gauges;
  gauges[MeterField.epochUs] = 1;
  const model = (width - MeterField.models) / ENSEMBLE.length;
  for (let i = MeterField.models; i < width; i++) {
    if ((i - MeterField.models) % model >= ModelWord.quantiles) gauges[i] = 1;
  }
  return gauges;
}

export class Ensemble implements RequestMeters {
  readonly #numbers: Float64Array;
  readonly #models: Models;
  readonly #now: () => number;
  readonly #startUs: number;

  /** `targets`: quantiles of the summaries, empty if they are off. `epochUs`: microseconds since 1970 at the clock's 0. */
  constructor(targets: readonly QuantileTarget[], now: () => number, epochUs: number) {
    const width = modelWidth(targets.length);
    this.#now = now;
    this.#numbers = new Float64Array(ensembleWidth(targets.length));
    this.#numbers[MeterField.epochUs] = epochUs;
    const startUs = now();
    this.#startUs = startUs;
    const models = ENSEMBLE.map((name, index) => {
      const from = MeterField.models + index * width;
      const numbers = this.#numbers.subarray(from, from + width);
      return [name, new TritonModel(numbers, targets, startUs)] as const;
    });
    this.#models = Object.fromEntries(models) as Models;
  }

  get numbers(): Float64Array {
    const nowUs = this.#now();
    this.#numbers[MeterField.aliveUs] = nowUs - this.#startUs;
    for (const name of ENSEMBLE) this.#models[name].refresh(nowUs);
    return this.#numbers;
  }

  begun(generation: Generation, streams: boolean, submittedUs: number, takenUs: number): RequestMeter {
    this.#preprocessed(generation, submittedUs);
    const promptTokens = generation.promptTokens ?? generation.promptIds.length;
    return new EnsembleRequest(this.#models, generation.arrivalUs, promptTokens, streams, submittedUs, takenUs);
  }

  /** Counts a request that `tensorrt_llm` could not enqueue: it answers with an error and reports nothing for the request. */
  refused(generation: Generation, submittedUs: number): void {
    this.#preprocessed(generation, submittedUs);
    this.#models.tensorrt_llm.responded(0);
    this.#models.ensemble.failed("OTHER", 2, false);
    this.#models.ensemble.responded(submittedUs - generation.arrivalUs);
  }

  /** Counts the step that converted the prompt to ids. */
  #preprocessed({ arrivalUs, encodedFromUs = arrivalUs }: Generation, endUs: number): void {
    const { preprocessing } = this.#models;
    preprocessing.succeeded(endUs, endUs - arrivalUs, encodedFromUs - arrivalUs, 0, endUs - encodedFromUs, 0);
    preprocessing.responded(endUs - arrivalUs);
  }
}

class EnsembleRequest implements RequestMeter {
  #responded = false;

  constructor(
    private readonly models: Models,
    private readonly arrivalUs: number,
    private readonly promptTokens: number,
    private readonly streams: boolean,
    private readonly submittedUs: number,
    private readonly takenUs: number,
  ) {}

  first(dueUs: number): void {
    if (this.streams) this.#respond(dueUs, dueUs);
  }

  ended(finish: Finish, outputTokens: number, dueUs: number, handedUs: number, nowUs: number): void {
    const { ensemble, postprocessing, tensorrt_llm: llm } = this.models;
    // On a late host, and if time is not simulated, a step may be due before its request was accepted.
    const endUs = Math.min(Math.max(dueUs, this.takenUs), handedUs);
    const responses = responsesOf(finish, outputTokens, this.streams);
    llm.lengths(this.promptTokens, outputTokens);
    this.#respond(endUs, nowUs);
    if (finish === Finish.Error) {
      llm.failed("BACKEND", 1, true);
      postprocessing.succeededAtOnce(responses);
      // Counted twice: by the error answer and by the report of the request's end.
      ensemble.failed("OTHER", 2, false);
      return;
    }
    const input = this.takenUs - this.submittedUs;
    const infer = endUs - this.takenUs;
    const output = handedUs - endUs;
    const post = nowUs - handedUs;
    llm.succeeded(handedUs, handedUs - this.submittedUs, 0, input, infer, output);
    postprocessing.succeededAtOnce(responses - 1);
    postprocessing.succeeded(nowUs, post, 0, 0, post, 0);
    postprocessing.responded(post);
    const steps = this.submittedUs - this.arrivalUs + infer + post;
    ensemble.succeeded(nowUs, nowUs - this.arrivalUs, 0, input, steps, output);
  }

  /** Counts the first response of the engine and of the ensemble, if it has not been counted yet. */
  #respond(llmUs: number, ensembleUs: number): void {
    if (this.#responded) return;
    this.#responded = true;
    this.models.tensorrt_llm.responded(llmUs - this.submittedUs);
    this.models.ensemble.responded(ensembleUs - this.arrivalUs);
  }
}

/**
 * Returns how often `postprocessing` ran: per token of a stream, or once for an answer in one piece. A cancelled stream
 * ends with a response without tokens; an error has no response.
 */
function responsesOf(finish: Finish, outputTokens: number, streams: boolean): number {
  if (finish === Finish.Error) return streams ? outputTokens : 0;
  if (!streams) return 1;
  return finish === Finish.Abort ? outputTokens + 1 : Math.max(1, outputTokens);
}
