/**
 * Did a request find enough of its prompt in the prefix cache? With `--cache-hit-threshold` one that found less ends
 * without a token, as in llm-d-inference-sim, so that a router can try another server.
 */

import { Finish, type Receiver, type Submission } from "../../../engine/interface/types.ts";
import type { HttpRequest } from "../../../wire/http/request.ts";
import { Refused } from "../../pydantic/refusals.ts";
import { get, type PythonDict, toPlain } from "../../pydantic/value.ts";
import { ReceiverBefore } from "../front/receiver-before.ts";
import { badRequest } from "../request/errors.ts";
import type { OpenAiServerConfig } from "../request/openai-config.ts";
import type { Form } from "./form.ts";

export const CACHE_THRESHOLD = "cache_threshold";
/** Ends a request so whatever it found. */
const HEADER = "x-cache-threshold-finish-reason";
/** What Go takes for true. */
const TRUE: readonly string[] = ["1", "t", "T", "TRUE", "true", "True"];
const FIELD = "cache_hit_threshold";

/** The field of a body; null: there is none, or it is no share, and the server's own counts. Throws `Refused`. */
export function thresholdOf(body: PythonDict): number | null {
  const given = toPlain(get(body, FIELD) ?? null);
  if (given === null) return null;
  if (typeof given !== "number" && typeof given !== "bigint")
    throw new Refused(badRequest(`${FIELD} takes a number from 0 to 1`, FIELD));
  return given >= 0 && given <= 1 ? Number(given) : null;
}

/** Returns the share of its prompt that a request must find; 0: nothing, above 1: more than there is. `threshold`: the server's. */
export function leastShare(
  threshold: number,
  { engine }: Pick<OpenAiServerConfig, "engine">,
  { cacheHitThreshold: own }: { readonly cacheHitThreshold: number | null },
  http: HttpRequest,
  { namesEnds }: Pick<Form, "namesEnds">,
): number {
  if (namesEnds && TRUE.includes(http.headers.get(HEADER) ?? "")) return Number.POSITIVE_INFINITY;
  return engine.enablePrefixCaching ? (own ?? threshold) : 0;
}

interface Judged {
  readonly submission: Submission | null;
  nameEnd(name: string): void;
}

/** Stands before who listens for a choice: with its first output it is known what was found. */
export class CacheJudge extends ReceiverBefore {
  readonly #choice: Judged;
  readonly #promptTokens: number;
  readonly #least: number;
  #judged = false;

  constructor(choice: Judged, next: Receiver, promptTokens: number, least: number) {
    super(next);
    this.#choice = choice;
    this.#promptTokens = promptTokens;
    this.#least = least;
  }

  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void {
    const isFirst = !this.#judged;
    this.#judged = true;
    const { submission } = this.#choice;
    const gaveUp = finish === Finish.Abort || finish === Finish.Error;
    const share = (submission?.cachedTokens ?? 0) / this.#promptTokens;
    if (!isFirst || gaveUp || share >= this.#least) {
      this.next.onTokens(ids, at, count, finish, stopTokenId);
      return;
    }
    this.#choice.nameEnd(CACHE_THRESHOLD);
    this.next.onTokens(ids, at, 0, Finish.Length, -1);
    submission?.finish(Finish.Length, 0);
  }
}
