/**
 * Refuses requests when the server is full. vLLM 0.33 answers 503 and nothing else. Gateways and hosted services in front of
 * vLLM also answer 429, and say when to try again, in one of three forms.
 */
import type { LiveValue } from "../../../base/live-value.ts";
import type { OverloadConfig } from "../../../kernel/live-settings.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { engineBusy, overloaded, prefillBacklog } from "../request/errors.ts";
import type { OpenAiKernel } from "../request/openai-config.ts";

/** Refusals that another moment would not have met. */
const FULL: readonly ErrorAnswer[] = [engineBusy, prefillBacklog];

export class Overload {
  readonly #config: LiveValue<OverloadConfig>;
  readonly #epochSeconds: () => number;

  constructor({ live, time }: OpenAiKernel) {
    this.#config = live.values.overload;
    this.#epochSeconds = time.epochSeconds;
  }

  /** `--limit-concurrency`: the refusal of one more request, when so many are being served with it. */
  refuses(requests: number): ErrorAnswer | null {
    const most = this.#config.get().requests;
    return most > 0 && requests > most ? engineBusy : null;
  }

  /** `--max-streams`: the refusal of one more stream, when there are so many with it. */
  refusesStream(streams: number): ErrorAnswer | null {
    const most = this.#config.get().streams;
    return most > 0 && streams > most ? engineBusy : null;
  }

  /** An answer as it is sent: status and headers as asked for where it says that the server is full, else itself. */
  shown(answer: ErrorAnswer): ErrorAnswer {
    const { overloadStatus, retryAfter } = this.#config.get();
    if (!FULL.includes(answer) || (overloadStatus === answer.status && retryAfter === null)) return answer;
    const shown = overloadStatus === answer.status ? answer : overloaded(answer, overloadStatus);
    return retryAfter === null ? shown : { ...shown, headers: this.#headers(retryAfter) };
  }

  #headers({ seconds, forms }: NonNullable<OverloadConfig["retryAfter"]>): Record<string, string> {
    const headers: Record<string, string> = {};
    // A date says the same as seconds, in the same header: the last one named wins.
    for (const form of forms) {
      if (form === "ms") headers["retry-after-ms"] = String(Math.round(seconds * 1000));
      else if (form === "seconds") headers["retry-after"] = String(Math.ceil(seconds));
      else headers["retry-after"] = new Date(Math.ceil(this.#epochSeconds() + seconds) * 1000).toUTCString();
    }
    return headers;
  }
}
