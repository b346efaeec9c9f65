/** What does an answer say of its own times? `--enable-per-request-metrics` of vLLM 0.33 (`entrypoints/generate/base/serving.py`): one choice, in milliseconds. */
import type { Submission } from "../../engine/types.ts";
import { reprFloat } from "./python-repr.ts";

/** When the outputs of one choice came. */
export class OutputTimes {
  #firstUs = 0;
  #lastUs = 0;

  came(nowUs: number): void {
    if (this.#firstUs === 0) this.#firstUs = nowUs;
    this.#lastUs = nowUs;
  }

  /** JSON. `whole`: a collected answer, whose fields are all written. */
  text(arrivalUs: number, tokens: number, submission: Submission | null, whole: boolean): string {
    const generationMs = Math.max(0, this.#lastUs - this.#firstUs) / 1000;
    const scheduledUs = submission?.scheduledUs ?? arrivalUs;
    const gaps = Math.max(1, tokens - 1);
    const wholeS = (this.#lastUs - arrivalUs) / 1e6;
    const values = {
      time_to_first_token_ms: (this.#firstUs - arrivalUs) / 1000,
      generation_time_ms: generationMs,
      queue_time_ms: Math.max(0, scheduledUs - arrivalUs) / 1000,
      mean_itl_ms: generationMs / gaps,
      tokens_per_second: wholeS > 0 ? tokens / wholeS : 0,
    };
    const fields = Object.entries(values).map(([name, value]) => `"${name}":${reprFloat(value)}`);
    return `{${fields.join()}${whole ? ',"speculative_decoding":null' : ""}}`;
  }
}
