/** Counts for one model like the core of a Triton server: `infer_stats.cc`, `metric_model_reporter.cc` (2026). */
import {
  FAILURE_REASONS,
  FIRST_RESPONSE_MS,
  ModelWord,
  modelWidth,
  type Reason,
  SPANS,
  TOKENS,
} from "./model-numbers.ts";
import { Quantiles, type QuantileTarget } from "./quantiles.ts";

const REFRESH_US = 1_000_000;

export class TritonModel {
  readonly #numbers: Float64Array;
  readonly #targets: readonly QuantileTarget[];
  /** By span. Empty if summaries are off. */
  readonly #quantiles: readonly Quantiles[];
  #stale = false;
  #refreshedUs = Number.NEGATIVE_INFINITY;

  /** `numbers` are the model's numbers, `modelWidth(targets.length)` of them. */
  constructor(numbers: Float64Array, targets: readonly QuantileTarget[], nowUs: number) {
    if (numbers.length !== modelWidth(targets.length)) throw new Error("a model's numbers have another width");
    this.#numbers = numbers;
    this.#targets = targets;
    this.#quantiles = targets.length === 0 ? [] : SPANS.map(() => new Quantiles(targets, nowUs));
  }

  /** Counts a request that succeeded at `nowUs`, with its spans in the order of `SPANS`. Each is cut to whole microseconds. */
  succeeded(nowUs: number, request: number, queue: number, input: number, infer: number, output: number): void {
    this.#countSuccess(1);
    this.#addSpan(0, request, nowUs);
    this.#addSpan(1, queue, nowUs);
    this.#addSpan(2, input, nowUs);
    this.#addSpan(3, infer, nowUs);
    this.#addSpan(4, output, nowUs);
    this.#stale = true;
  }

  /** Counts successful requests that took no time, because only their number is known. */
  succeededAtOnce(requests: number): void {
    this.#countSuccess(requests);
    this.#add(ModelWord.firstResponse, requests);
  }

  /** Counts failures. `executed`: the backend reports a batch although the request failed. */
  failed(reason: Reason, times: number, executed: boolean): void {
    this.#add(ModelWord.failures + FAILURE_REASONS.indexOf(reason), times);
    if (executed) this.#add(ModelWord.executions, 1);
  }

  /** Records the time from a request's start to its first response, which may be an error. */
  responded(us: number): void {
    this.#observe(ModelWord.firstResponse, FIRST_RESPONSE_MS, Math.max(0, Math.floor(us / 1000)));
  }

  lengths(inputTokens: number, outputTokens: number): void {
    this.#observe(ModelWord.inputTokens, TOKENS, inputTokens);
    this.#observe(ModelWord.outputTokens, TOKENS, outputTokens);
  }

  /** Updates the estimates, at most once a second, because with many values this takes milliseconds. */
  refresh(nowUs: number): void {
    for (const quantiles of this.#quantiles) if (quantiles.rotate(nowUs)) this.#stale = true;
    if (!this.#stale || nowUs - this.#refreshedUs < REFRESH_US) return;
    this.#stale = false;
    this.#refreshedUs = nowUs;
    let at: number = ModelWord.quantiles;
    for (const quantiles of this.#quantiles) {
      for (const { quantile } of this.#targets) {
        const value = quantiles.get(quantile);
        this.#numbers[at++] = Number.isNaN(value) ? 0 : value + 1;
      }
    }
  }

  #countSuccess(requests: number): void {
    this.#add(ModelWord.success, requests);
    this.#add(ModelWord.count, requests);
    this.#add(ModelWord.executions, requests);
  }

  #addSpan(span: number, durationUs: number, nowUs: number): void {
    const us = Math.max(0, Math.floor(durationUs));
    this.#add(ModelWord.durations + span, us);
    if (this.#quantiles.length > 0) this.#quantiles[span]!.insert(us, nowUs);
  }

  #add(word: number, by: number): void {
    this.#numbers[word]! += by;
  }

  #observe(word: number, bounds: readonly number[], value: number): void {
    let at = 0;
    while (at < bounds.length && value > bounds[at]!) at++;
    this.#add(word + at, 1);
    this.#add(word + bounds.length + 1, value);
  }
}
