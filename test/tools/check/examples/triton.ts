/** Examples of the laws of Triton's metrics. */
import { type Example, page } from "./example.ts";

const M = 'model="m",version="1"';
const counters = (success: number, count: number, exec: number) =>
  page(`
    nv_inference_request_success{${M}} ${success}
    nv_inference_request_failure{${M},reason="OTHER"} 0
    nv_inference_count{${M}} ${count}
    nv_inference_exec_count{${M}} ${exec}
    nv_inference_request_duration_us{${M}} ${success * 100}
  `);
const parts = (infer: number) =>
  page(`
    nv_inference_queue_duration_us{${M}} 10
    nv_inference_compute_input_duration_us{${M}} 10
    nv_inference_compute_infer_duration_us{${M}} ${infer}
    nv_inference_compute_output_duration_us{${M}} 10
  `);
const failures = page(`
  nv_inference_request_failure{${M},reason="BACKEND"} 0
  nv_inference_request_failure{${M},reason="CANCELED"} 0
  nv_inference_request_failure{${M},reason="OTHER"} 0
  nv_inference_request_failure{${M},reason="REJECTED"} 0
`);
const summary = page(`
  # TYPE nv_inference_request_summary_us summary
  nv_inference_request_summary_us_count{${M}} 2
  nv_inference_request_summary_us_sum{${M}} 200
  nv_inference_request_summary_us{${M},quantile="0.5"} 80
  nv_inference_request_summary_us{${M},quantile="0.9"} 120
`);
/** Two successes, one of them from the response cache. */
const cached =
  counters(2, 1, 1) +
  parts(70) +
  page(`
    nv_cache_num_hits_per_model{${M}} 1
    # TYPE nv_inference_queue_summary_us summary
    nv_inference_queue_summary_us_count{${M}} 2
    nv_inference_queue_summary_us_sum{${M}} 10
    # TYPE nv_inference_compute_infer_summary_us summary
    nv_inference_compute_infer_summary_us_count{${M}} 1
    nv_inference_compute_infer_summary_us_sum{${M}} 70
  `);
const tritonStats = {
  model_stats: [
    {
      name: "m",
      version: "1",
      inference_count: "2",
      execution_count: "2",
      inference_stats: { success: { count: "2", ns: "300000" } },
    },
  ],
};

export const triton: readonly Example[] = [
  { law: "N01", pages: [counters(2, 2, 2)], change: [`nv_inference_count{${M}} 2`, `nv_inference_count{${M}} 1`] },
  {
    law: "N01",
    pages: [counters(2, 2, 2)],
    change: [`nv_inference_count{${M}} 2`, `nv_inference_count{${M}} 3`],
    options: { parameters: { batchOfOne: true } },
  },
  {
    law: "N02",
    pages: [counters(232, 232, 232)],
    change: ['exec_count{model="m",version="1"} 232', 'exec_count{model="m",version="1"} 11041'],
  },
  { law: "N03", pages: [counters(1, 1, 1) + parts(60)], change: ["60", "90"] },
  {
    law: "N04",
    pages: [counters(0, 0, 0) + parts(0).replaceAll("} 10", "} 0")],
    change: [`infer_duration_us{${M}} 0`, `infer_duration_us{${M}} 9`],
  },
  { law: "N05", pages: [failures], change: [`nv_inference_request_failure{${M},reason="CANCELED"} 0\n`, ""] },
  {
    law: "N06",
    pages: [`nv_inference_pending_request_count{${M}} 0\n`],
    change: ["} 0", "} 1"],
    last: { rest: true },
  },
  {
    law: "N06",
    pages: ['nv_inference_pending_request_count{model="ensemble",version="1"} 0\n'],
    change: ["} 0", "} 1"],
  },
  { law: "N07", pages: [counters(2, 2, 2) + summary], change: [`success{${M}} 2`, `success{${M}} 0`] },
  { law: "N07", pages: [cached], change: [`queue_summary_us_count{${M}} 2`, `queue_summary_us_count{${M}} 1`] },
  { law: "N07", pages: [cached], change: [`infer_summary_us_count{${M}} 1`, `infer_summary_us_count{${M}} 2`] },
  { law: "N07", pages: [cached], change: [`infer_summary_us_sum{${M}} 70`, `infer_summary_us_sum{${M}} 71`] },
  // Even for large sums the values must agree to the microsecond.
  {
    law: "N07",
    pages: [
      (counters(2, 2, 2) + summary)
        .replace(`duration_us{${M}} 200`, `duration_us{${M}} 5000000`)
        .replace(`us_sum{${M}} 200`, `us_sum{${M}} 5000000`),
    ],
    change: [`us_sum{${M}} 5000000`, `us_sum{${M}} 5000001`],
  },
  { law: "N08", pages: [summary], change: ['"0.9"} 120', '"0.9"} 70'] },
  {
    law: "N09",
    pages: [
      `${counters(2, 2, 2)}nv_inference_first_response_histogram_ms_count{${M}} 2\nnv_inference_first_response_histogram_ms_sum{${M}} 2\n`,
    ],
    change: [`histogram_ms_count{${M}} 2`, `histogram_ms_count{${M}} 3`],
    last: { rest: true },
  },
  {
    law: "N10",
    pages: [counters(0, 0, 0).replace(/nv_inference_request_duration_us.*\n/, "")],
    change: [`nv_inference_count{${M}} 0`, `nv_inference_count{${M}} 1`],
  },
  {
    law: "N11",
    pages: [counters(2, 2, 2)],
    change: [`success{${M}} 2`, `success{${M}} 3`],
    last: { rest: true, tritonStats },
  },
  {
    law: "N12",
    pages: ['nv_gpu_memory_total_bytes{gpu_uuid="GPU-1"} 80\nnv_gpu_memory_used_bytes{gpu_uuid="GPU-1"} 70\n'],
    change: ["} 70", "} 90"],
  },
];

const requests = (values: Readonly<Record<string, number>>) =>
  Object.entries(values)
    .map(([type, value]) => `nv_trt_llm_request_metrics{${M},request_type="${type}"} ${value}\n`)
    .join("");
const blocks = (values: Readonly<Record<string, number>>) =>
  Object.entries(values)
    .map(([type, value]) => `nv_trt_llm_kv_cache_block_metrics{${M},kv_cache_block_type="${type}"} ${value}\n`)
    .join("");
const inflight = (values: Readonly<Record<string, number>>) =>
  Object.entries(values)
    .map(
      ([type, value]) =>
        `nv_trt_llm_inflight_batcher_metrics{${M},inflight_batcher_specific_metric="${type}"} ${value}\n`,
    )
    .join("");
const memory = ["cpu", "gpu", "pinned"].map(
  (type) => `nv_trt_llm_runtime_memory_metrics{${M},memory_type="${type}"} 0\n`,
);
const general = (timestamp: number, iterations: number) =>
  page(`
    nv_trt_llm_general_metrics{${M},general_type="timestamp"} ${timestamp}
    nv_trt_llm_general_metrics{${M},general_type="iteration_counter"} ${iterations}
  `);
const US = 1.8e15;

export const trtllm: readonly Example[] = [
  { law: "T01", pages: [requests({ active: 5, scheduled: 3, waiting: 2 })], change: ['"waiting"} 2', '"waiting"} 3'] },
  {
    law: "T02",
    pages: [requests({ scheduled: 3, context: 1 }) + inflight({ generation_requests: 2 })],
    change: ['"context"} 1', '"context"} 2'],
  },
  { law: "T03", pages: [requests({ active: 8, max: 8 })], change: ['"active"} 8', '"active"} 9'] },
  { law: "T04", pages: [blocks({ max: 10, used: 4, free: 6, tokens_per: 32 })], change: ['"free"} 6', '"free"} 5'] },
  {
    law: "T04",
    pages: [
      blocks({ max: 10, used: 4, free: 6, tokens_per: 32 }),
      blocks({ max: 10, used: 4, free: 6, tokens_per: 32 }),
    ],
    change: ['"tokens_per"} 32', '"tokens_per"} 64'],
  },
  { law: "T05", pages: [blocks({ max: 10, used: 4, fraction: 0.4 })], change: ["0.4", "6"] },
  { law: "T06", pages: [blocks({ reused: 5 }), blocks({ reused: 6 })], change: ["6", "4"] },
  { law: "T07", pages: [general(US, 5), general(US + 1, 6)], change: ['counter"} 6', 'counter"} 5'] },
  {
    law: "T08",
    pages: [requests({ context: 2 }) + inflight({ total_context_tokens: 100 })],
    change: ["100", "1"],
  },
  {
    law: "T09",
    pages: [inflight({ paused_requests: 0 })],
    change: ["} 0", "} 1"],
    options: { parameters: { noEvict: true } },
  },
  {
    law: "T10",
    pages: [
      `nv_trt_llm_x{${M}} 0\nnv_llm_input_token_len_count{${M}} 5\nnv_llm_output_token_len_count{${M}} 4\n${counters(5, 5, 5)}`,
    ],
    change: [`output_token_len_count{${M}} 4`, `output_token_len_count{${M}} 6`],
  },
  {
    law: "T11",
    pages: [
      requests({ active: 0, max: 8, scheduled: 0, context: 0, waiting: 0 }) +
        memory.join("") +
        blocks({ max: 0, free: 0, used: 0, tokens_per: 0, reused: 0, fraction: 0 }) +
        general(0, 0),
    ],
    change: [`nv_trt_llm_kv_cache_block_metrics{${M},kv_cache_block_type="max"} 0\n`, ""],
  },
  {
    law: "T12",
    pages: [requests({ active: 0, scheduled: 0, waiting: 0 }) + blocks({ fraction: 0 })],
    change: ['fraction"} 0', 'fraction"} 0.2'],
    last: { rest: true },
  },
];
