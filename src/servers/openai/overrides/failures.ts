/**
 * Answers valid requests with an error: a share of all, drawn from the server's seed in the order of arrival
 * (`--failure-injection-rate`), and with `--compat llm-d-inference-sim` those whose header asks for it.
 */

import type { LiveValue } from "../../../base/live-value.ts";
import { mix, type Random, seeded } from "../../../base/random.ts";
import { FAILURE_TYPES, type FailureType } from "../../../faults/failure-types.ts";
import type { FailureRate } from "../../../kernel/live-settings.ts";
import { errorTypeOf } from "../../../text/canned/fixtures/error-type.ts";
import type { HttpRequest } from "../../../wire/http/request.ts";
import { missingBody } from "../../pydantic/read-body.ts";
import { type ErrorAnswer, errorAnswer } from "../../pydantic/refusals.ts";
import { badRequest, engineBusy, overloaded, unauthorized, unknownModel } from "../request/errors.ts";
import type { OpenAiServerConfig } from "../request/openai-config.ts";
import { promptTooLong } from "../request/sampling.ts";

const HEADER = "x-return-error";
/** Salt that makes these draws independent of the seeds of requests. */
const SALT = 0x3c6ef372;

export class Failures {
  readonly #rate: LiveValue<FailureRate>;
  readonly #errorHeader: boolean;
  readonly #next: Random;
  readonly #answers: Readonly<Record<FailureType, ErrorAnswer>>;

  constructor({ engine, models: { servedModelNames }, faults }: OpenAiServerConfig, rate: LiveValue<FailureRate>) {
    this.#rate = rate;
    this.#errorHeader = faults.errorHeader === true;
    this.#next = seeded(mix(engine.seed ^ SALT, 0));
    const limits = { servedModelNames };
    this.#answers = {
      // vLLM limits no rates, but a gateway in front of it may.
      rate_limit: overloaded(engineBusy, 429),
      invalid_api_key: { ...unauthorized, asItIs: true },
      context_length: promptTooLong(engine.maxModelLen + 1, engine.maxModelLen),
      // A copy, because `--overload-status` changes the status of the original.
      server_error: { ...engineBusy },
      invalid_request: missingBody(),
      model_not_found: unknownModel(`${servedModelNames[0]}-nonexistent`, limits),
    };
  }

  /** Returns the error of a request, or null if it is served. */
  of(http: HttpRequest): ErrorAnswer | null {
    const { failureRate = 0, failureTypes = FAILURE_TYPES } = this.#rate.get();
    const ordered = this.#errorHeader ? http.headers.get(HEADER) : null;
    if (ordered !== null) return onOrder(ordered);
    if (failureRate === 0 || this.#draw(100) >= failureRate) return null;
    return this.#answers[failureTypes[Math.floor(this.#draw(failureTypes.length))]!];
  }

  /** Draws a number from 0 up to, not including, `end`. */
  #draw(end: number): number {
    return (this.#next() / 2 ** 32) * end;
  }
}

function onOrder(text: string): ErrorAnswer {
  const status = /^[45]\d\d$/.test(text) ? Number(text) : null;
  if (status === null) return badRequest(`X-Return-Error: must be a status from 400 to 599, not "${text}"`);
  return errorAnswer(`Status ${status}, as X-Return-Error asks`, errorTypeOf(status), null, status);
}
