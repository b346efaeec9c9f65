/** Defines the Grafana dashboards of Understudy: one table of panels per dialect. `dashboards.ts` writes the files. */

/** A PromQL expression, and the legend of its curves, which is a template of Grafana such as `{{label}}`. */
type Line = readonly [expr: string, legend: string];

export interface Panel {
  readonly title: string;
  /** Unit in Grafana's notation: s, ms, µs, percentunit, reqps, short, bytes … */
  readonly unit: string;
  readonly lines: readonly Line[];
  readonly about?: string;
  readonly kind?: "timeseries" | "stat" | "heatmap";
}

interface Section {
  readonly title: string;
  readonly panels: readonly Panel[];
}

export interface Dashboard {
  readonly dialect: string;
  readonly title: string;
  readonly about: string;
  /**
   * The label by which a user selects series, and a metric family that has it. Null if the dashboard has no such selection.
   */
  readonly choice: readonly [label: string, family: string] | null;
  readonly sections: readonly Section[];
}

const panel = (title: string, unit: string, lines: readonly Line[], about?: string): Panel => ({
  title,
  unit,
  lines,
  ...(about === undefined ? {} : { about }),
});
const heatmap = (title: string, unit: string, expr: string): Panel => ({
  title,
  unit,
  lines: [[expr, "{{le}}"]],
  kind: "heatmap",
});

const RATE = "[$__rate_interval]";
const QUANTILES = ["0.5", "0.9", "0.99"];

/** Returns expressions for the quantiles of a histogram, summed over all selected series. */
const quantiles = (family: string, selection: string): Line[] =>
  QUANTILES.map((quantile) => [
    `histogram_quantile(${quantile}, sum by (le) (rate(${family}_bucket${selection}${RATE})))`,
    `p${Number(quantile) * 100}`,
  ]);
const mean = (family: string, selection: string, legend: string): Line => [
  `sum(rate(${family}_sum${selection}${RATE})) / (sum(rate(${family}_count${selection}${RATE})) > 0)`,
  legend,
];

const V = '{job=~"$job",instance=~"$instance",model_name=~"$choice"}';
const P = '{job=~"$job",instance=~"$instance"}';
const vllm: Dashboard = {
  dialect: "vllm",
  title: "vLLM",
  about:
    "Load, latency, tokens and cache under vLLM's own names (0.33); works for an understudy and for the real server.",
  choice: ["model_name", "vllm:num_requests_running"],
  sections: [
    {
      title: "Load",
      panels: [
        panel("Requests", "short", [
          [`sum by (engine) (vllm:num_requests_running${V})`, "running, engine {{engine}}"],
          [
            `sum by (engine, reason) (vllm:num_requests_waiting_by_reason${V})`,
            "waiting for {{reason}}, engine {{engine}}",
          ],
        ]),
        panel("Requests that ended", "reqps", [
          [`sum by (finished_reason) (rate(vllm:request_success_total${V}${RATE}))`, "{{finished_reason}}"],
        ]),
        panel("KV cache in use", "percentunit", [
          [`max by (engine) (vllm:kv_cache_usage_perc${V})`, "engine {{engine}}"],
        ]),
        panel("Preemptions", "ops", [
          [`sum by (engine) (rate(vllm:num_preemptions_total${V}${RATE}))`, "engine {{engine}}"],
        ]),
      ],
    },
    {
      title: "Latency",
      panels: [
        panel("Time to first token", "s", quantiles("vllm:time_to_first_token_seconds", V)),
        panel("Time between tokens", "s", quantiles("vllm:inter_token_latency_seconds", V)),
        panel("Whole request", "s", quantiles("vllm:e2e_request_latency_seconds", V)),
        panel(
          "Where the time goes, mean per request",
          "s",
          ["queue", "prefill", "decode"].map((phase) => mean(`vllm:request_${phase}_time_seconds`, V, phase)),
        ),
      ],
    },
    {
      title: "Tokens",
      panels: [
        panel("Tokens per second", "short", [
          [`sum(rate(vllm:prompt_tokens_total${V}${RATE}))`, "prompt"],
          [`sum(rate(vllm:generation_tokens_total${V}${RATE}))`, "generated"],
        ]),
        panel("Prompt tokens by source", "short", [
          [`sum by (source) (rate(vllm:prompt_tokens_by_source_total${V}${RATE}))`, "{{source}}"],
        ]),
        panel("Prefix cache hits", "percentunit", [
          [
            `sum(rate(vllm:prefix_cache_hits_total${V}${RATE})) / (sum(rate(vllm:prefix_cache_queries_total${V}${RATE})) > 0)`,
            "of the tokens looked up",
          ],
        ]),
        panel("Tokens per step", "short", [mean("vllm:iteration_tokens_total", V, "mean")]),
        heatmap("Prompt lengths", "short", `sum by (le) (increase(vllm:request_prompt_tokens_bucket${V}${RATE}))`),
        heatmap("Answer lengths", "short", `sum by (le) (increase(vllm:request_generation_tokens_bucket${V}${RATE}))`),
      ],
    },
    {
      title: "Server",
      panels: [
        panel("HTTP answers", "reqps", [
          [`sum by (handler, status) (rate(http_requests_total${P}${RATE}))`, "{{handler}} {{status}}"],
        ]),
        panel("Memory of the process", "bytes", [[`process_resident_memory_bytes${P}`, "{{instance}}"]]),
      ],
    },
  ],
};

const T = '{job=~"$job",instance=~"$instance",model=~"$choice"}';
const perSuccess = (family: string): string =>
  `sum by (model) (rate(${family}${T}${RATE})) / (sum by (model) (rate(nv_inference_request_success${T}${RATE})) > 0)`;
const triton: Dashboard = {
  dialect: "triton",
  title: "Triton",
  about: "Requests, where their time goes, and the machine, under Triton's own names.",
  choice: ["model", "nv_inference_request_success"],
  sections: [
    {
      title: "Requests",
      panels: [
        panel("Requests that succeeded", "reqps", [
          [`sum by (model) (rate(nv_inference_request_success${T}${RATE}))`, "{{model}}"],
        ]),
        panel("Requests that failed", "reqps", [
          [`sum by (model, reason) (rate(nv_inference_request_failure${T}${RATE}))`, "{{model}} {{reason}}"],
        ]),
        panel(
          "Waiting for an instance",
          "short",
          [[`sum by (model) (nv_inference_pending_request_count${T})`, "{{model}}"]],
          "Stays near 0 with backends that queue inside, such as TensorRT-LLM: look at its own dashboard.",
        ),
        panel("Requests per execution", "short", [
          [
            `sum by (model) (rate(nv_inference_count${T}${RATE})) / (sum by (model) (rate(nv_inference_exec_count${T}${RATE})) > 0)`,
            "{{model}}",
          ],
        ]),
      ],
    },
    {
      title: "Time per request",
      panels: [
        panel("Whole request, mean", "µs", [[perSuccess("nv_inference_request_duration_us"), "{{model}}"]]),
        panel("Queue, mean", "µs", [[perSuccess("nv_inference_queue_duration_us"), "{{model}}"]]),
        panel("Compute, mean", "µs", [
          [perSuccess("nv_inference_compute_input_duration_us"), "{{model}} input"],
          [perSuccess("nv_inference_compute_infer_duration_us"), "{{model}} inference"],
          [perSuccess("nv_inference_compute_output_duration_us"), "{{model}} output"],
        ]),
        panel(
          "Time to first response, p95",
          "ms",
          [
            [
              `histogram_quantile(0.95, sum by (le, model) (rate(nv_inference_first_response_histogram_ms_bucket${T}${RATE})))`,
              "{{model}}",
            ],
          ],
          "Needs --metrics-config histogram_latencies=true. Ends at the last bucket, 5 s.",
        ),
        panel(
          "Whole request, quantiles",
          "µs",
          [[`nv_inference_request_summary_us${T}`, "{{model}} {{quantile}}"]],
          "Needs --metrics-config summary_latencies=true.",
        ),
      ],
    },
    {
      title: "Machine",
      panels: [
        panel("GPU busy", "percentunit", [[`nv_gpu_utilization${P}`, "{{gpu_uuid}}"]]),
        panel("GPU memory in use", "percentunit", [
          [`nv_gpu_memory_used_bytes${P} / nv_gpu_memory_total_bytes${P}`, "{{gpu_uuid}}"],
        ]),
        panel("GPU power", "watt", [[`nv_gpu_power_usage${P}`, "{{gpu_uuid}}"]]),
        panel("CPU busy", "percentunit", [[`nv_cpu_utilization${P}`, "{{instance}}"]]),
        panel("Memory in use", "percentunit", [
          [`nv_cpu_memory_used_bytes${P} / nv_cpu_memory_total_bytes${P}`, "host"],
          [`nv_pinned_memory_pool_used_bytes${P} / nv_pinned_memory_pool_total_bytes${P}`, "pinned pool"],
        ]),
      ],
    },
  ],
};

/** Returns a PromQL expression for one series of a TensorRT-LLM family: that whose `label` has this value, per model. */
const labelled = (family: string, label: string, value: string): string =>
  `sum by (model) (${family}${T.replace("}", `,${label}="${value}"}`)})`;
const trtllm: Dashboard = {
  dialect: "trtllm",
  title: "TensorRT-LLM inflight batcher",
  about: "Requests, KV blocks and iterations as TensorRT-LLM's backend reports them on Triton's endpoint.",
  choice: ["model", "nv_trt_llm_request_metrics"],
  sections: [
    {
      title: "Requests",
      panels: [
        panel(
          "Requests",
          "short",
          ["active", "scheduled", "waiting", "context", "max"].map((type) => [
            labelled("nv_trt_llm_request_metrics", "request_type", type),
            type,
          ]),
        ),
        panel("In the batch", "short", [
          [
            labelled("nv_trt_llm_inflight_batcher_metrics", "inflight_batcher_specific_metric", "generation_requests"),
            "generating",
          ],
          [
            labelled("nv_trt_llm_inflight_batcher_metrics", "inflight_batcher_specific_metric", "paused_requests"),
            "paused",
          ],
        ]),
        panel("Context tokens of a step", "short", [
          [
            labelled("nv_trt_llm_inflight_batcher_metrics", "inflight_batcher_specific_metric", "total_context_tokens"),
            "{{model}}",
          ],
        ]),
        panel("Iterations", "ops", [
          [
            `sum by (model) (rate(nv_trt_llm_general_metrics${T.replace("}", ',general_type="iteration_counter"}')}${RATE}))`,
            "{{model}}",
          ],
        ]),
      ],
    },
    {
      title: "KV cache",
      panels: [
        panel(
          "Blocks",
          "short",
          ["used", "free", "max", "reused"].map((type) => [
            labelled("nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type", type),
            type,
          ]),
        ),
        panel("In use", "percentunit", [
          [labelled("nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type", "fraction"), "{{model}}"],
        ]),
        panel(
          "Memory",
          "bytes",
          ["gpu", "cpu", "pinned"].map((type) => [
            labelled("nv_trt_llm_runtime_memory_metrics", "memory_type", type),
            type,
          ]),
        ),
      ],
    },
    {
      title: "Tokens of finished requests",
      panels: [
        panel("Tokens per second", "short", [
          [`sum by (model) (rate(nv_llm_input_token_len_sum${T}${RATE}))`, "input"],
          [`sum by (model) (rate(nv_llm_output_token_len_sum${T}${RATE}))`, "output"],
        ]),
        panel("Mean lengths", "short", [
          mean("nv_llm_input_token_len", T, "input"),
          mean("nv_llm_output_token_len", T, "output"),
        ]),
      ],
    },
  ],
};

const understudy: Dashboard = {
  dialect: "understudy",
  title: "Understudy",
  about: "What the stand-in says of itself: every request once, and how punctual it is.",
  choice: null,
  sections: [
    {
      title: "Requests",
      panels: [
        panel("Requests that ended", "reqps", [
          [`sum by (outcome) (rate(understudy_requests_total${P}${RATE}))`, "{{outcome}}"],
        ]),
        panel("Open", "short", [
          [`understudy_requests_open${P}`, "requests"],
          [`understudy_streams_open${P}`, "of them streams"],
        ]),
        panel("Held for clients that read slowly", "bytes", [[`understudy_held_bytes${P}`, "{{instance}}"]]),
        panel("Steps", "ops", [[`sum by (engine) (rate(understudy_steps_total${P}${RATE}))`, "engine {{engine}}"]]),
      ],
    },
    {
      title: "Punctuality",
      panels: [
        panel(
          "How late steps start",
          "s",
          quantiles("understudy_step_start_lateness_seconds", P),
          "Latencies that clients measure are too long by as much.",
        ),
        panel("How late the last row of a step is written", "s", quantiles("understudy_step_end_lateness_seconds", P)),
        panel("The loop's own time per step", "s", [
          mean("understudy_step_host_seconds", P, "whole step"),
          mean("understudy_step_write_seconds", P, "writing rows"),
        ]),
        panel("Event loop delay", "s", quantiles("understudy_event_loop_delay_seconds", P)),
        panel("Engine time set back", "s", [
          [`increase(understudy_clock_rebased_seconds_total${P}${RATE})`, "{{instance}}"],
        ]),
        panel("Memory of the cores", "bytes", [[`understudy_core_memory_bytes${P}`, "engine {{engine}}"]]),
        panel("Worker processes started again", "short", [
          [`increase(understudy_worker_restarts_total${P}${RATE})`, "{{instance}}"],
        ]),
        panel("Rows that the truth log lost", "short", [
          [`increase(understudy_truth_dropped_total${P}${RATE})`, "{{kind}}"],
        ]),
      ],
    },
  ],
};

export const dashboards: readonly Dashboard[] = [vllm, triton, trtllm, understudy];
