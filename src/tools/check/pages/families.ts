/**
 * Lists the metric families of each server. With this list, a page with a foreign or missing prefix is recognised by several of its
 * families, and `--names` can refuse a misspelt family. Names have no prefix. Sources: vLLM 0.6.6 to 0.33.0
 * (`v1/metrics/loggers.py`, `engine/metrics.py`), TensorRT-LLM 1.0 to 1.3 (`tensorrt_llm/metrics/collector.py`), Triton's core
 * and tensorrtllm_backend, Dynamo 1.6 and earlier, production-stack's router
 * (`src/vllm_router/services/metrics_service/__init__.py`).
 */
import type { DialectName } from "./law.ts";

const names = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/));

/** Families of all versions of vLLM. Prefix `vllm:`. */
const VLLM = names(`
  admission_rejections_total avg_generation_throughput_toks_per_s avg_prompt_throughput_toks_per_s
  cache_config_info corrupted_requests_total cpu_cache_usage_perc cpu_prefix_cache_hit_rate
  diffusion_num_canvas_positions_total diffusion_num_committed_tokens_total diffusion_num_denoising_steps_total
  e2e_request_latency_seconds engine_sleep_state estimated_flops_per_gpu_total
  estimated_read_bytes_per_gpu_total estimated_write_bytes_per_gpu_total external_prefix_cache_hits_total
  external_prefix_cache_queries_total generation_tokens_total gpu_cache_usage_perc gpu_prefix_cache_hit_rate
  gpu_prefix_cache_hits_total gpu_prefix_cache_queries_total hf3fs_load_duration_seconds
  hf3fs_num_failed_load_total hf3fs_num_failed_save_total hf3fs_save_duration_seconds hisparse_cache_hits_total
  hisparse_cache_misses_total hisparse_host_block_idle_before_evict_seconds hisparse_host_block_lifetime_seconds
  hisparse_host_block_reuse_gap_seconds hisparse_host_cache_usage_perc hisparse_host_to_device_bytes_total
  hisparse_pending_page_transfers inter_token_latency_seconds iteration_tokens_total
  kv_block_idle_before_evict_seconds kv_block_lifetime_seconds kv_block_reuse_gap_seconds kv_cache_usage_perc
  kv_offload_allocation_failure_total kv_offload_config_info kv_offload_cpu_allocation_size
  kv_offload_cpu_cache_read_usage_perc kv_offload_cpu_cache_usage_perc kv_offload_cpu_cache_write_usage_perc
  kv_offload_load_bytes_total kv_offload_load_size kv_offload_load_time_total
  kv_offload_lookup_async_delay_seconds kv_offload_lookup_sync_delay_seconds kv_offload_size
  kv_offload_store_bytes_total kv_offload_store_size kv_offload_store_time_total kv_offload_stores_skipped_total
  kv_offload_tiering_active_cascade_jobs kv_offload_tiering_active_promotion_jobs
  kv_offload_tiering_backpressure_blocks_dropped_total kv_offload_tiering_backpressure_store_latency_ema
  kv_offload_tiering_backpressure_stores_dropped_total kv_offload_tiering_cascade_job_failures_total
  kv_offload_tiering_chunk_hits_total kv_offload_tiering_chunk_queries_total
  kv_offload_tiering_lookup_async_delay_seconds kv_offload_tiering_lookup_sync_delay_seconds
  kv_offload_tiering_primary_read_usage_perc kv_offload_tiering_primary_write_usage_perc
  kv_offload_tiering_promotion_allocation_failures_total kv_offload_tiering_promotion_job_failures_total
  kv_offload_tiering_promotion_latency_seconds kv_offload_tiering_read_bytes_total
  kv_offload_tiering_read_time_total kv_offload_tiering_write_bytes_total kv_offload_tiering_write_time_total
  kv_offload_total_bytes_total kv_offload_total_time_total lora_requests_info mm_cache_hits_total
  mm_cache_queries_total model_execute_time_milliseconds model_forward_time_milliseconds
  mooncake_bytes_transferred mooncake_num_descriptors mooncake_num_failed_recvs_total
  mooncake_num_failed_transfers_total mooncake_num_kv_expired_reqs_total mooncake_store_operation_bytes_total
  mooncake_store_operation_failed_keys_total mooncake_store_operation_keys_total
  mooncake_store_operation_time_seconds mooncake_store_operation_total mooncake_xfer_time_seconds
  nixl_bytes_transferred nixl_num_descriptors nixl_num_failed_notifications_total
  nixl_num_failed_transfers_total nixl_num_kv_expired_reqs_total nixl_num_notifications_after_expiry_total
  nixl_post_time_seconds nixl_xfer_time_seconds num_preemptions_total num_requests_kv_fetch_by_stage
  num_requests_running num_requests_swapped num_requests_waiting num_requests_waiting_by_reason
  prefix_cache_hits_total prefix_cache_queries_total prompt_tokens_by_source_total
  prompt_tokens_cached_by_source_total prompt_tokens_cached_total prompt_tokens_recomputed_total
  prompt_tokens_total request_decode_time_seconds request_generation_tokens request_inference_time_seconds
  request_max_num_generation_tokens request_num_preemptions request_params_best_of request_params_max_tokens
  request_params_n request_prefill_kv_computed_tokens request_prefill_time_seconds request_prompt_tokens
  request_queue_time_seconds request_success_total request_time_per_output_token_seconds
  rl_weight_update_operation_duration_seconds rl_weight_update_operations_in_flight simple_kv_offload_info
  simple_kv_offload_load_blocks_total simple_kv_offload_pending_store_blocks
  simple_kv_offload_save_outcomes_total simple_kv_offload_used_blocks sleep_mode_operation_duration_seconds
  sleep_mode_operations_in_flight spec_decode_draft_acceptance_rate spec_decode_efficiency
  spec_decode_num_accepted_tokens_per_pos_total spec_decode_num_accepted_tokens_total
  spec_decode_num_draft_tokens_total spec_decode_num_drafts_total spec_decode_num_emitted_tokens_total
  time_in_queue_requests time_per_output_token_seconds time_to_first_token_seconds tokens_total
  tool_call_parser_invocations_total umbp_transfer_bytes_total umbp_transfer_completed_total
  umbp_transfer_failed_total umbp_transfer_submitted_total watermark_requests_total
  websocket_connection_duration_seconds websocket_connections_active websocket_connections_total
`);

/** Families of the router of vLLM's production stack. Its prefix is `vllm:`, like that of the engines behind it. */
const ROUTER = names(`
  avg_decoding_length avg_itl avg_latency current_qps gpu_prefix_cache_hit_rate gpu_prefix_cache_hits_total
  gpu_prefix_cache_queries_total healthy_pods_total input_tokens_total num_decoding_requests
  num_incoming_requests_total num_prefill_requests num_requests_running num_requests_swapped
  num_requests_waiting output_tokens_total request_errors_total request_latency_seconds routing_decisions_total
`);

/** Families of trtllm-serve. Prefix `trtllm_` since 1.3, no prefix in 1.0 to 1.2. */
const TRTLLM_SERVE = names(`
  avg_decoded_tokens_per_iter cpu_memory_usage_bytes e2e_request_latency_seconds generation_perplexity
  generation_tokens_total gpu_memory_usage_bytes iteration_latency_seconds kv_cache_config_info
  kv_cache_disk_prefetch_blocks_total kv_cache_free_blocks kv_cache_gen_alloc_blocks_total kv_cache_hit_rate
  kv_cache_host_utilization kv_cache_intra_device_copy_bytes_total kv_cache_iter_full_reused_blocks_total
  kv_cache_iter_missed_blocks_total kv_cache_iter_partial_reused_blocks_total kv_cache_iter_reuse_rate
  kv_cache_iter_reused_blocks_total kv_cache_max_blocks kv_cache_missed_blocks_total
  kv_cache_offload_bytes_total kv_cache_onboard_bytes_total kv_cache_reused_blocks_total
  kv_cache_tokens_per_block kv_cache_used_blocks kv_cache_utilization max_batch_size_runtime
  max_batch_size_static max_num_active_requests max_num_tokens_runtime model_config_info num_context_requests
  num_generation_requests num_paused_requests num_requests_completed_total num_requests_running
  num_requests_waiting num_scheduled_requests parallel_config_info pinned_memory_usage_bytes
  prefill_batch_occupancy prefill_batch_tokens prefill_perplexity prompt_cache_hit_tokens_total
  prompt_cached_tokens_per_request prompt_cached_tokens_total prompt_tokens_total request_decode_time_seconds
  request_error_total request_inference_time_seconds request_prefill_time_seconds request_queue_time_seconds
  request_success_total scheduled_batch_size spec_decode_acceptance_length spec_decode_accepted_tokens_total
  spec_decode_draft_overhead spec_decode_drafted_tokens_total spec_decode_num_accepted_tokens_total
  spec_decode_num_draft_tokens_total speculative_config_info time_per_output_token_seconds
  time_to_first_token_seconds total_context_tokens
`);

/** Families of Triton's core. Prefix `nv_`. */
const TRITON = names(`
  cache_hit_duration_per_model cache_hit_summary_per_model cache_insertion_duration cache_lookup_duration
  cache_miss_duration_per_model cache_miss_summary_per_model cache_num_entries cache_num_evictions
  cache_num_hits cache_num_hits_per_model cache_num_lookups cache_num_misses cache_num_misses_per_model
  cache_util cpu_memory_total_bytes cpu_memory_used_bytes cpu_utilization energy_consumption
  gpu_memory_total_bytes gpu_memory_used_bytes gpu_power_limit gpu_power_usage gpu_utilization
  inference_compute_infer_duration_us inference_compute_infer_summary_us inference_compute_input_duration_us
  inference_compute_input_summary_us inference_compute_output_duration_us inference_compute_output_summary_us
  inference_count inference_exec_count inference_first_response_histogram_ms inference_pending_request_count
  inference_queue_duration_us inference_queue_summary_us inference_request_duration_us inference_request_failure
  inference_request_success inference_request_summary_us model_load_duration_secs pinned_memory_pool_total_bytes
  pinned_memory_pool_used_bytes
`);

/** Families of TensorRT-LLM's backend for Triton. Prefix `nv_`. */
const TRTLLM = names(`
  llm_input_token_len llm_output_token_len trt_llm_disaggregated_serving_metrics
  trt_llm_disaggregated_serving_statistics trt_llm_general_metrics trt_llm_general_statistics
  trt_llm_inflight_batcher_metrics trt_llm_inflight_batcher_statistics trt_llm_kv_cache_block_metrics
  trt_llm_kv_cache_block_statistics trt_llm_request_metrics trt_llm_request_statistics
  trt_llm_runtime_memory_metrics trt_llm_runtime_memory_statistics trt_llm_v1_metrics trt_llm_v1_statistics
`);

/** Families of Dynamo's frontend. Prefix `dynamo_frontend_`. */
const DYNAMO_FRONTEND = names(`
  active_requests audio_per_request cached_tokens detokenize_token_count detokenize_total_us
  disconnected_clients embedding_latency_seconds event_loop_delay_seconds event_loop_stall_total
  image_tokens_per_request images_per_request inflight_requests input_sequence_tokens
  inter_token_latency_seconds lora_active_requests lora_churn_loads_total lora_churn_unloads_total
  lora_estimated_load lora_is_active lora_overflow_count lora_raw_arrival_count lora_replica_factor
  model_cancellation_total model_context_length model_kv_cache_block_size model_max_num_batched_tokens
  model_max_num_seqs model_migration_duration_seconds model_migration_limit
  model_migration_max_seq_len_exceeded_total model_migration_total model_rejection_total model_total_kv_blocks
  output_sequence_tokens output_tokens_total queued_requests request_duration_seconds request_success_count
  requests_started_total requests_total router_queue_backpressure_total router_queue_pending_cached_tokens
  router_queue_pending_isl_tokens router_queue_pending_requests stage_duration_seconds stage_requests
  template_seconds time_to_first_token_seconds tokenize_seconds tokenizer_cache_cached_tokens_total
  tokenizer_cache_hits_total tokenizer_cache_misses_total tokenizer_cache_uncached_tokens_total
  tokenizer_latency_ms videos_per_request worker_active_decode_blocks worker_active_prefill_tokens
  worker_last_input_sequence_tokens worker_last_inter_token_latency_seconds
  worker_last_time_to_first_token_seconds
`);

const PARTS = /_(bucket|sum|count|created|total)$/;

/** Removes all endings that a metric type adds: `x_tokens_total_sum` becomes `x_tokens`. */
export function baseName(name: string): string {
  for (let base = name; ; ) {
    const shorter = base.replace(PARTS, "");
    if (shorter === base || shorter === "") return base;
    base = shorter;
  }
}

/** Families of each server, without its prefix. Servers without laws of their own have no entry. */
export const familyNames: Readonly<Partial<Record<DialectName, ReadonlySet<string>>>> = {
  vllm: VLLM,
  "vllm-router": ROUTER,
  "trtllm-serve": TRTLLM_SERVE,
  triton: TRITON,
  trtllm: TRTLLM,
  "dynamo-frontend": DYNAMO_FRONTEND,
};

/** Families of each server without the endings that a metric type adds. */
export const baseNames: Readonly<Partial<Record<DialectName, ReadonlySet<string>>>> = Object.fromEntries(
  Object.entries(familyNames).map(([dialect, families]) => [dialect, new Set([...families].map(baseName))]),
);

/** Base names of the families that the router has and no engine has. */
export const routerOnly: ReadonlySet<string> = new Set(
  [...baseNames["vllm-router"]!].filter((base) => !baseNames.vllm!.has(base)),
);
