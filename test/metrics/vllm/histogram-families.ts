/** Families of the engine's histograms, without their prefix. */
import type { HistogramName } from "../../../src/engine/interface/types.ts";

export const HISTOGRAM_FAMILIES: Readonly<Record<HistogramName, string>> = {
  timeToFirstToken: "time_to_first_token_seconds",
  interTokenLatency: "inter_token_latency_seconds",
  e2eLatency: "e2e_request_latency_seconds",
  queueTime: "request_queue_time_seconds",
  prefillTime: "request_prefill_time_seconds",
  decodeTime: "request_decode_time_seconds",
  inferenceTime: "request_inference_time_seconds",
  timePerOutputToken: "request_time_per_output_token_seconds",
  promptTokens: "request_prompt_tokens",
  generationTokens: "request_generation_tokens",
  maxTokens: "request_params_max_tokens",
  iterationTokens: "iteration_tokens_total",
  requestPreemptions: "request_num_preemptions",
  prefillComputed: "request_prefill_kv_computed_tokens",
  requestChoices: "request_params_n",
  longestChoice: "request_max_num_generation_tokens",
};
