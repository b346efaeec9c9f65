/** Answers the calls of a front end to functions of the engine. Source: `vllm/v1/engine/core.py`, vLLM 0.33.0. */
import type { UtilityOutput } from "./messages/outputs.ts";
import type { UtilityCall } from "./messages/request.ts";

/** Results of functions that have nothing to do here, because there are no weights, no images and no adapters. */
const RESULTS: Readonly<Record<string, unknown>> = {
  get_supported_tasks: ["generate"],
  reset_mm_cache: null,
  reset_encoder_cache: null,
  is_sleeping: false,
  is_scheduler_paused: false,
  list_loras: [],
};

/** Answers a call. A function that is not known fails, because an unanswered call would hang the front end. */
export function utilityAnswer({ call_id, method }: UtilityCall): UtilityOutput {
  if (Object.hasOwn(RESULTS, method)) return { call_id, failure: null, result: RESULTS[method] };
  return { call_id, failure: `Call to ${method} method failed: this engine does not have it`, result: null };
}
