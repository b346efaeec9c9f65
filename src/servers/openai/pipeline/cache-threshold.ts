/**
 * Ends a request without a token if too little of its prompt is in the prefix cache, so that a router can try another
 * server. Enabled by `--cache-hit-threshold`. Field, header and finish reason are those of llm-d-inference-sim.
 */

import { Finish, type Receiver, type Submission } from "../../../engine/interface/types.ts";
import type { HttpRequest } from "../../../wire/http/request.ts";
import { refuse } from "../../pydantic/refusals.ts";
import { get, type PythonDict, toPlain } from "../../pydantic/value.ts";
import { ReceiverBefore } from "../front/receiver-before.ts";
import { badRequest } from "../request/errors.ts";
import type { OpenAiServerConfig } from "../request/openai-config.ts";
import type { Form } from "./form.ts";

/** Finish reason of a request that found too little of its prompt in the cache. */
export const CACHE_THRESHOLD = "cache_threshold";
/** Name of a request header. If it is true, the request ends with this finish reason in any case. */
const HEADER = "x-cache-threshold-finish-reason";
/** Values that Go's `strconv.ParseBool` reads as true. */
const TRUE: readonly string[] = ["1", "t", "T", "TRUE", "true", "True"];
const FIELD = "cache_hit_threshold";

/**
 * Returns the threshold in a body. Returns null if the field is absent or outside 0 to 1: the server's threshold applies then.
 * Throws `RefusedRequest` if the field is not a number.
 */
export function thresholdOf(body: PythonDict): number | null {
  const value = toPlain(get(body, FIELD) ?? null);
  if (value === null) return null;
  if (typeof value !== "number" && typeof value !== "bigint")
    refuse(badRequest(`${FIELD} takes a number from 0 to 1`, FIELD));
  return value >= 0 && value <= 1 ? Number(value) : null;
}

/**
 * Returns the share of a prompt that must be cached, from 0 (no condition) to 1. Infinity: the request ends in any case.
 * `threshold`: the server's.
 */
export function leastShare(
  threshold: number,
  { engine }: Pick<OpenAiServerConfig, "engine">,
  { cacheHitThreshold }: { readonly cacheHitThreshold: number | null },
  http: HttpRequest,
  { namesEnds }: Pick<Form, "namesEnds">,
): number {
  if (namesEnds && TRUE.includes(http.headers.get(HEADER) ?? "")) return Number.POSITIVE_INFINITY;
  return engine.enablePrefixCaching ? (cacheHitThreshold ?? threshold) : 0;
}

/** The members of a choice that `CacheJudge` uses. */
interface JudgeableChoice {
  readonly submission: Submission | null;
  nameEnd(name: string): void;
}

/**
 * Receives a choice's outputs before the next receiver does. Ends the choice at its first output, when the number of cached
 * tokens is known.
 */
export class CacheJudge extends ReceiverBefore {
  readonly #choice: JudgeableChoice;
  readonly #promptTokens: number;
  readonly #leastShare: number;
  #judged = false;

  constructor(choice: JudgeableChoice, next: Receiver, promptTokens: number, leastShare: number) {
    super(next);
    this.#choice = choice;
    this.#promptTokens = promptTokens;
    this.#leastShare = leastShare;
  }

  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void {
    const isFirst = !this.#judged;
    this.#judged = true;
    const { submission } = this.#choice;
    const wasGivenUp = finish === Finish.Abort || finish === Finish.Error;
    const share = (submission?.cachedTokens ?? 0) / this.#promptTokens;
    if (!isFirst || wasGivenUp || share >= this.#leastShare) {
      this.next.onTokens(ids, at, count, finish, stopTokenId);
      return;
    }
    this.#choice.nameEnd(CACHE_THRESHOLD);
    this.next.onTokens(ids, at, 0, Finish.Length, -1);
    submission?.finish(Finish.Length, 0);
  }
}
