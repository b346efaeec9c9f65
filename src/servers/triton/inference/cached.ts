/** How does a request go by the response cache? A hit is answered at once, and counted by itself; a miss is kept for later. */
import { isCached } from "../model-config/model-config.ts";
import { TritonError } from "../model-config/status.ts";
import { cacheKey } from "./cache.ts";
import type { InferAnswer, InferRequest } from "./request.ts";
import { passOn, type Served, type Shared } from "./served.ts";

/** The key under which the answer is to be kept; null: there is no cache for it; "hit": it has been answered. */
export function lookUp(model: Served, request: InferRequest, shared: Shared): string | null {
  const { cache, clock, epochMs } = shared;
  if (cache === null || !isCached(model.config)) return null;
  const key = cacheKey(model.name, model.version, request);
  const fromUs = clock.now();
  const found = cache.find(key);
  const nowUs = clock.now();
  request.cacheUs = nowUs - fromUs;
  cache.counts.lookupUs += request.cacheUs;
  if (found === undefined) return key;
  model.statistics.hit(nowUs - request.startUs, fromUs - request.queuedUs, request.cacheUs, nowUs, epochMs());
  passOn(request, model.statistics, clock, wanted(request, found), true);
  return HIT;
}
export const HIT = "hit";

/** Keeps the answer without its parameters; an error object as one without outputs, as the real server. Gives what that took. */
export function keep(key: string, answer: InferAnswer | TritonError, request: InferRequest, shared: Shared): number {
  const { cache, clock } = shared;
  const fromUs = clock.now();
  cache!.insert(key, { outputs: answer instanceof TritonError ? [] : answer.outputs, parameters: [] });
  const us = clock.now() - fromUs;
  cache!.counts.insertionUs += us;
  return request.cacheUs + us;
}

/** What of an answer the request is given. */
export const chosen = (request: InferRequest, answer: InferAnswer | TritonError): InferAnswer | TritonError =>
  answer instanceof TritonError ? answer : wanted(request, answer);

/** The outputs that the request names, in the model's order; all where it names none. */
export function wanted({ fields }: InferRequest, answer: InferAnswer): InferAnswer {
  if (fields.outputs.length === 0) return answer;
  return { ...answer, outputs: answer.outputs.filter(({ name }) => fields.outputs.includes(name)) };
}
