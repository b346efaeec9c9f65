/** Help texts of the families of Triton's core: `metrics.cc` (2026). Other help texts are in their tables. */

const request = "inference request duration in microseconds (includes cached requests)";
const queue = "inference queuing duration in microseconds (includes cached requests)";
const compute = {
  nv_inference_compute_input: "Cumulative compute input duration in microseconds (does not include cached requests)",
  nv_inference_compute_infer:
    "Cumulative compute inference duration in microseconds (does not include cached requests)",
  nv_inference_compute_output:
    "Cumulative inference compute output duration in microseconds (does not include cached requests)",
} as const;

export const HELP = {
  nv_inference_request_success: "Number of successful inference requests, all batch sizes",
  nv_inference_request_failure: "Number of failed inference requests, all batch sizes",
  nv_inference_count: "Number of inferences performed (does not include cached requests)",
  nv_inference_exec_count: "Number of model executions performed (does not include cached requests)",
  nv_inference_request_duration_us: `Cumulative ${request}`,
  nv_inference_queue_duration_us: `Cumulative ${queue}`,
  nv_inference_compute_input_duration_us: compute.nv_inference_compute_input,
  nv_inference_compute_infer_duration_us: compute.nv_inference_compute_infer,
  nv_inference_compute_output_duration_us: compute.nv_inference_compute_output,
  nv_inference_request_summary_us: `Summary of ${request}`,
  nv_inference_queue_summary_us: `Summary of ${queue}`,
  nv_inference_compute_input_summary_us: compute.nv_inference_compute_input,
  nv_inference_compute_infer_summary_us: compute.nv_inference_compute_infer,
  nv_inference_compute_output_summary_us: compute.nv_inference_compute_output,
  nv_inference_pending_request_count: "Instantaneous number of pending requests awaiting execution per-model.",
  nv_model_load_duration_secs: "Model load time in seconds",
  nv_inference_first_response_histogram_ms: "Duration from request to first response in milliseconds",
  nv_pinned_memory_pool_total_bytes: "Pinned memory pool total memory size, in bytes",
  nv_pinned_memory_pool_used_bytes: "Pinned memory pool used memory size, in bytes",
  nv_energy_consumption: "GPU energy consumption in joules since the Triton Server started",
  nv_gpu_utilization: "GPU utilization rate [0.0 - 1.0)",
  nv_gpu_memory_total_bytes: "GPU total memory, in bytes",
  nv_gpu_memory_used_bytes: "GPU used memory, in bytes",
  nv_gpu_power_usage: "GPU power usage in watts",
  nv_gpu_power_limit: "GPU power management limit in watts",
  nv_cpu_utilization: "CPU utilization rate [0.0 - 1.0]",
  nv_cpu_memory_total_bytes: "CPU total memory (RAM), in bytes",
  nv_cpu_memory_used_bytes: "CPU used memory (RAM), in bytes",
} as const;

/** Default of `--pinned-memory-pool-byte-size`. */
export const PINNED_BYTES = 268_435_456;
