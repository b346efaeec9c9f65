/**
 * Lists the fields of the structs that travel as arrays, in their order, for each line of vLLM's versions. No message names its
 * version, so that the caller chooses by the front end that it expects. Source: `vllm/v1/engine/__init__.py` of vLLM 0.33.0.
 */

const REQUEST_0_33 = [
  "request_id",
  "prompt_token_ids",
  "mm_features",
  "sampling_params",
  "pooling_params",
  "arrival_time",
  "lora_request",
  "cache_salt",
  "data_parallel_rank",
  "prompt_embeds",
  "prompt_is_token_ids",
  "client_index",
  "current_wave",
  "priority",
  "trace_headers",
  "resumable",
  "external_req_id",
  "reasoning_ended",
  "reasoning_parser_kwargs",
  "abort_immediately",
  "session_id",
  "kv_hints",
] as const;

const OUTPUT_0_33 = [
  "request_id",
  "new_token_ids",
  "new_logprobs",
  "new_prompt_logprobs_tensors",
  "pooling_output",
  "finish_reason",
  "stop_reason",
  "events",
  "kv_transfer_params",
  "ec_transfer_params",
  "trace_headers",
  "prefill_stats",
  "routed_experts",
  "num_nans_in_logits",
  "mm_cache_miss_hashes",
  "new_sampling_mask",
  "spec_decode_metrics",
  "prompt_token_id_logprobs",
  "error",
] as const;

const OUTPUTS_0_33 = [
  "engine_index",
  "outputs",
  "scheduler_stats",
  "timestamp",
  "utility_output",
  "finished_requests",
  "wave_complete",
  "start_wave",
  "weight_version",
] as const;

export type RequestField = (typeof REQUEST_0_33)[number];
export type OutputField = (typeof OUTPUT_0_33)[number];
export type OutputsField = (typeof OUTPUTS_0_33)[number];

export interface MessageLayout {
  /** Elements of an `EngineCoreRequest`. */
  readonly request: readonly RequestField[];
  /** Elements of an `EngineCoreOutput`. */
  readonly output: readonly OutputField[];
  /** Elements of an `EngineCoreOutputs`. */
  readonly outputs: readonly OutputsField[];
}

/** Layouts by the line of versions. */
export const LAYOUTS = {
  "0.33": { request: REQUEST_0_33, output: OUTPUT_0_33, outputs: OUTPUTS_0_33 },
} as const satisfies Readonly<Record<string, MessageLayout>>;
