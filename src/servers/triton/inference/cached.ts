/** Looks up requests in the response cache and inserts new answers. Counts hits. */
import { isCached } from "../model-config/model-config.ts";
import { TritonError } from "../model-config/status.ts";
import { cacheKey } from "./cache.ts";
import type { InferAnswer, InferRequest } from "./request.ts";
import type { ModelVersion, SharedParts } from "./served.ts";

/**
 * Looks up the answer to a request. Returns the answer and counts a hit. Without an answer, returns the key under which to insert
 * it later. Returns null if the model has no cache.
 */
export function lookUp(model: ModelVersion, request: InferRequest, shared: SharedParts): InferAnswer | string | null {
  const { cache, clock, epochMs } = shared;
  if (cache === null || !isCached(model.config)) return null;
  const key = cacheKey(model.name, model.version, request);
  const fromUs = clock.now();
  const cachedAnswer = cache.find(key);
  const nowUs = clock.now();
  request.cacheUs = nowUs - fromUs;
  cache.counts.lookupUs += request.cacheUs;
  if (cachedAnswer === undefined) return key;
  model.statistics.hit(nowUs - request.startUs, fromUs - request.queuedUs, request.cacheUs, nowUs, epochMs(nowUs));
  return withRequestedOutputs(request, cachedAnswer);
}

/**
 * Inserts the answer without its parameters, and returns the microseconds that the lookup and the insertion took. Like the real
 * server, stores an error as an answer without outputs.
 */
export function insertAnswer(
  key: string,
  answer: InferAnswer | TritonError,
  request: InferRequest,
  shared: SharedParts,
): number {
  const { cache, clock } = shared;
  const fromUs = clock.now();
  cache!.insert(key, { outputs: answer instanceof TritonError ? [] : answer.outputs, parameters: [] });
  const us = clock.now() - fromUs;
  cache!.counts.insertionUs += us;
  return request.cacheUs + us;
}

/** Returns the part of an answer that the request asked for. Errors stay unchanged. */
export const requestedPart = (request: InferRequest, answer: InferAnswer | TritonError): InferAnswer | TritonError =>
  answer instanceof TritonError ? answer : withRequestedOutputs(request, answer);

/** Returns the requested outputs in the model's order, or all outputs if the request names none. */
export function withRequestedOutputs({ fields }: InferRequest, answer: InferAnswer): InferAnswer {
  if (fields.outputs.length === 0) return answer;
  return { ...answer, outputs: answer.outputs.filter(({ name }) => fields.outputs.includes(name)) };
}
