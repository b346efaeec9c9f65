/**
 * Writes the times of a request into its answer, for `--enable-per-request-metrics`. As `build_per_request_timing_metrics`
 * of vLLM 0.33 (`entrypoints/generate/base/serving.py`): one choice, milliseconds, counted from its first scheduling.
 */
import type { Submission } from "../../../engine/interface/types.ts";
import { reprFloat } from "../../pydantic/repr.ts";

/** Records the times of the first and the last output of a choice. */
export class OutputTimes {
  #firstUs = 0;
  #lastUs = 0;

  /** Records an output. */
  record(nowUs: number): void {
    if (this.#firstUs === 0) this.#firstUs = nowUs;
    this.#lastUs = nowUs;
  }

  /** Returns a JSON object. `whole`: includes nulls, as in answers that are not streamed. */
  text(queuedUs: number, tokens: number, submission: Submission | null, whole: boolean): string {
    const scheduledUs = submission?.scheduledUs ?? queuedUs;
    const ms = (fromUs: number, toUs: number) => Math.max(0, toUs - fromUs) / 1000;
    const decodeMs = ms(this.#firstUs, this.#lastUs);
    const inferenceMs = ms(scheduledUs, this.#lastUs);
    const values = {
      time_to_first_token_ms: ms(scheduledUs, this.#firstUs),
      generation_time_ms: decodeMs,
      queue_time_ms: ms(queuedUs, scheduledUs),
      mean_itl_ms: tokens > 1 ? decodeMs / (tokens - 1) : null,
      tokens_per_second: inferenceMs > 0 ? (tokens / inferenceMs) * 1000 : null,
      speculative_decoding: null,
    };
    const fields = Object.entries(values).flatMap(([name, value]) => {
      if (value === null) return whole ? [`"${name}":null`] : [];
      return [`"${name}":${reprFloat(value)}`];
    });
    return `{${fields.join()}}`;
  }
}
