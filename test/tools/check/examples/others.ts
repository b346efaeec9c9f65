/** Examples of the laws of the smaller dialects, such as trtllm-serve's. */
import { type Example, page } from "./example.ts";

const observed = (name: string, count: number, sum: number) => `${name}_count ${count}\n${name}_sum ${sum}\n`;

export const trtllmServe: readonly Example[] = [
  {
    law: "S01",
    pages: [
      page(`
        trtllm_num_scheduled_requests 3
        trtllm_num_requests_running 3
        trtllm_max_num_active_requests 8
        trtllm_num_context_requests 1
        trtllm_num_generation_requests 2
      `),
    ],
    change: ["running 3", "running 2"],
  },
  {
    law: "S02",
    pages: [
      "trtllm_kv_cache_utilization 0.4\ntrtllm_kv_cache_used_blocks 4\ntrtllm_kv_cache_free_blocks 6\ntrtllm_kv_cache_max_blocks 10\n",
    ],
    change: ["0.4", "0.6"],
  },
  {
    law: "S03",
    pages: [
      "trtllm_request_queue_time_seconds_count 3\ntrtllm_request_success_total 3\ntrtllm_e2e_request_latency_seconds_count 2\n",
    ],
    change: ["latency_seconds_count 2", "latency_seconds_count 4"],
  },
  {
    law: "S04",
    pages: [
      "trtllm_prompt_cached_tokens_total 16\ntrtllm_prompt_tokens_total 20\ntrtllm_prompt_cached_tokens_per_request_sum 16\n",
    ],
    change: ["prompt_tokens_total 20", "prompt_tokens_total 10"],
  },
  {
    law: "S05",
    pages: [
      "trtllm_generation_tokens_total 5\ntrtllm_request_success_total 1\n",
      "trtllm_generation_tokens_total 9\ntrtllm_request_success_total 2\n",
    ],
    change: ["success_total 2", "success_total 1"],
  },
  {
    law: "S06",
    pages: [
      "trtllm_kv_cache_hit_rate 0.25\ntrtllm_kv_cache_reused_blocks_total 1\ntrtllm_kv_cache_missed_blocks_total 3\n",
    ],
    change: ["0.25", "0.75"],
  },
  {
    law: "S07",
    pages: [
      page(`
        ${observed("trtllm_e2e_request_latency_seconds", 2, 4)}
        trtllm_request_queue_time_seconds_sum 1
        trtllm_request_inference_time_seconds_sum 3
        trtllm_request_decode_time_seconds_sum 2
        trtllm_time_per_output_token_seconds_sum 1
      `),
    ],
    change: ["token_seconds_sum 1", "token_seconds_sum 3"],
  },
];

const D = "dynamo_frontend_";
const ended = (status: string, error: string, value: number) =>
  `${D}requests_total{model="m",status="${status}",error_type="${error}"} ${value}\n`;

export const dynamo: readonly Example[] = [
  {
    law: "D01",
    pages: [`${D}requests_started_total{model="m"} 5\n${D}inflight_requests{model="m"} 2\n${ended("success", "", 3)}`],
    change: [`requests{model="m"} 2`, `requests{model="m"} 3`],
  },
  {
    law: "D02",
    pages: [`${D}inflight_requests 2\n${D}active_requests 2\n${D}queued_requests 1\n`],
    change: ["queued_requests 1", "queued_requests 3"],
  },
  {
    law: "D03",
    pages: [`${D}request_duration_seconds_count{model="m"} 3\n${ended("success", "", 3)}`],
    change: [`_count{model="m"} 3`, `_count{model="m"} 2`],
  },
  {
    law: "D04",
    pages: [
      `${D}time_to_first_token_seconds_count 3\n${D}input_sequence_tokens_count 3\n${D}output_sequence_tokens_count 2\n`,
    ],
    change: ["output_sequence_tokens_count 2", "output_sequence_tokens_count 4"],
  },
  {
    law: "D05",
    pages: [`${D}output_tokens_total 50\n${D}output_sequence_tokens_sum 40\n`],
    change: ["total 50", "total 30"],
  },
  {
    law: "D06",
    pages: [
      `${D}inter_token_latency_seconds_count 8\n${D}output_tokens_total 10\n${D}time_to_first_token_seconds_count 2\n`,
    ],
    change: ["latency_seconds_count 8", "latency_seconds_count 9"],
  },
  {
    law: "D07",
    pages: [`${observed(`${D}cached_tokens`, 2, 64)}${D}requests_started_total 2\n${D}input_sequence_tokens_sum 100\n`],
    change: ["cached_tokens_sum 64", "cached_tokens_sum 128"],
  },
  { law: "D08", pages: [ended("success", "", 3)], change: ['error_type=""', 'error_type="internal"'] },
  { law: "D09", pages: [`${D}disconnected_clients 2\n`, `${D}disconnected_clients 3\n`], change: ["3", "1"] },
  {
    law: "D10",
    pages: [`${D}model_total_kv_blocks{model="m"} 16384\n`, `${D}model_total_kv_blocks{model="m"} 16384\n`],
    change: ["16384", "8192"],
  },
  {
    law: "D11",
    pages: [`${D}stage_requests{stage="route",phase=""} 1\n${D}active_requests{model="m"} 1\n`],
    change: ['phase=""} 1', 'phase=""} 2'],
  },
];

export const cross: readonly Example[] = [
  {
    law: "X01",
    pages: ['vllm:num_requests_waiting 2\nnv_trt_llm_request_metrics{request_type="waiting"} 2\n'],
    change: ['"waiting"} 2', '"waiting"} 3'],
    options: { parameters: { oneInstant: true } },
  },
  {
    law: "X01",
    pages: ['vllm:kv_cache_usage_perc 0\nnv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction"} 0\n'],
    change: ['"fraction"} 0', '"fraction"} 0.5'],
    last: { rest: true },
  },
  {
    law: "X02",
    pages: [
      "vllm:generation_tokens_total 12\nvllm:request_generation_tokens_sum 10\ntrtllm_generation_tokens_total 10\n",
    ],
    change: ["trtllm_generation_tokens_total 10", "trtllm_generation_tokens_total 9"],
  },
  {
    law: "X03",
    pages: ["vllm:e2e_request_latency_seconds_count 7\nvllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"],
    change: ["seconds_count 7", "seconds_count 6"],
    last: { rest: true, truth: { requests: 10, clientAborts: 2, refused: 1 } },
  },
  {
    law: "X04",
    pages: ["vllm:prompt_tokens_total 40\nvllm:generation_tokens_total 12\n"],
    change: ["generation_tokens_total 12", "generation_tokens_total 13"],
    last: { rest: true, truth: { promptTokens: 40, generationTokens: 12 } },
  },
];
