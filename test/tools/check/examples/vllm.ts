/** Examples of the laws of vLLM's metrics. */
import { type Example, page } from "./example.ts";

const CLEAN_REST: Pick<Example, "options" | "last"> = { options: { clean: true }, last: { rest: true } };

const idle = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n";
const success = (stop: number, abort = 0) =>
  page(`
    vllm:request_success_total{finished_reason="stop"} ${stop}
    vllm:request_success_total{finished_reason="length"} 0
    vllm:request_success_total{finished_reason="abort"} ${abort}
    vllm:request_success_total{finished_reason="error"} 0
    vllm:request_success_total{finished_reason="repetition"} 0
  `);
const config = (labels: string) => `vllm:cache_config_info{${labels}} 1\n`;
const observed = (name: string, count: number, sum: number) => `vllm:${name}_count ${count}\nvllm:${name}_sum ${sum}\n`;

/**
 * Ten requests per second for one second, from rest to rest, with 20 scrapes per second. V41 and V42 (Little's law) need that
 * many.
 */
function littles(inferenceS: number): { pages: string[]; each: { atS: number }[] } {
  const pages: string[] = [];
  const at = (running: number, sumS: number) =>
    page(`
      vllm:num_requests_running ${running}
      vllm:num_requests_waiting 0
      vllm:request_queue_time_seconds_sum 0
      vllm:request_inference_time_seconds_sum ${sumS}
      vllm:num_preemptions_total 0
    `);
  for (let i = 0; i <= 220; i++) pages.push(i === 0 ? at(0, 0) : i === 220 ? at(0, inferenceS) : at(10, 0));
  return { pages, each: pages.map((_, i) => ({ atS: i * 0.05 })) };
}
const truth = (finished: number, clientAborts: number) => ({ truth: { finished, clientAborts } });

export const vllm: readonly Example[] = [
  {
    law: "V01",
    pages: ['vllm:num_requests_waiting 3\nvllm:num_requests_waiting_by_reason{reason="capacity"} 3\n'],
    change: ['"capacity"} 3', '"capacity"} 2'],
  },
  {
    law: "V02",
    pages: ["vllm:num_requests_running 8\n"],
    change: ["8", "9"],
    options: { parameters: { maxNumSeqs: 8 } },
  },
  {
    law: "V03",
    pages: [`${config('num_gpu_blocks="41"')}vllm:kv_cache_usage_perc 0.25\n`],
    change: ["0.25", "0.26"],
  },
  { law: "V04", pages: [`${idle}vllm:kv_cache_usage_perc 0\n`], change: ["perc 0", "perc 0.99"] },
  {
    law: "V05",
    pages: ["vllm:num_requests_running 1\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0.1\n"],
    change: ["perc 0.1", "perc 0"],
  },
  {
    law: "V05",
    pages: [`${idle}vllm:kv_cache_usage_perc 0\n`],
    change: ["perc 0", "perc 0.1"],
  },
  {
    law: "V06",
    pages: [`${config('block_size="16"')}vllm:prefix_cache_queries_total 100\nvllm:prefix_cache_hits_total 32\n`],
    change: ["hits_total 32", "hits_total 112"],
  },
  {
    law: "V06",
    pages: [`${config('block_size="16"')}vllm:prefix_cache_queries_total 100\nvllm:prefix_cache_hits_total 32\n`],
    change: ["hits_total 32", "hits_total 33"],
  },
  {
    law: "V07",
    pages: [
      "vllm:prefix_cache_queries_total 100\nvllm:prefix_cache_hits_total 32\n",
      "vllm:prefix_cache_queries_total 100\nvllm:prefix_cache_hits_total 32\n",
    ],
    change: ["hits_total 32", "hits_total 48"],
  },
  {
    law: "V08",
    pages: ["vllm:prefix_cache_queries_total 100\nvllm:prompt_tokens_total 90\n"],
    change: ["tokens_total 90", "tokens_total 110"],
  },
  {
    law: "V08",
    pages: ["vllm:prefix_cache_queries_total 100\nvllm:prompt_tokens_total 100\n"],
    change: ["queries_total 100", "queries_total 200"],
    ...CLEAN_REST,
  },
  {
    law: "V09",
    pages: ['vllm:prompt_tokens_total 5\nvllm:prompt_tokens_by_source_total{source="local_compute"} 5\n'],
    change: ["total 5\n", "total 6\n"],
  },
  {
    law: "V10",
    pages: ['vllm:prompt_tokens_cached_total 5\nvllm:prompt_tokens_by_source_total{source="local_cache_hit"} 5\n'],
    change: ["total 5\n", "total 6\n"],
  },
  {
    law: "V11",
    pages: ['vllm:prefix_cache_hits_total 16\nvllm:prompt_tokens_cached_by_source_total{source="device"} 16\n'],
    change: ["hits_total 16", "hits_total 32"],
  },
  {
    law: "V12",
    pages: ['vllm:prompt_tokens_cached_total 16\nvllm:prompt_tokens_cached_by_source_total{source="device"} 16\n'],
    change: ["cached_total 16", "cached_total 17"],
  },
  {
    law: "V13",
    pages: [
      page(`
        vllm:iteration_tokens_total_sum 15
        vllm:prompt_tokens_by_source_total{source="local_compute"} 10
        vllm:prompt_tokens_by_source_total{source="local_cache_hit"} 16
        vllm:generation_tokens_total 5
      `),
    ],
    change: ["sum 15", "sum 31"],
  },
  {
    law: "V14",
    pages: [`vllm:time_to_first_token_seconds_count 3\n${success(3)}`],
    change: ["seconds_count 3", "seconds_count 2"],
  },
  {
    law: "V15",
    pages: [`vllm:e2e_request_latency_seconds_count 3\n${success(2, 1)}`],
    change: ['"abort"} 1', '"abort"} 0'],
  },
  {
    law: "V16",
    pages: [
      page(`
        vllm:e2e_request_latency_seconds_count 3
        vllm:request_queue_time_seconds_count 3
        vllm:request_prompt_tokens_count 3
        vllm:request_params_max_tokens_count 2
      `),
    ],
    change: ["time_seconds_count 3", "time_seconds_count 2"],
  },
  {
    law: "V17",
    pages: [
      `${observed("request_inference_time_seconds", 2, 3)}vllm:request_prefill_time_seconds_sum 1\nvllm:request_decode_time_seconds_sum 2\n`,
    ],
    change: ["decode_time_seconds_sum 2", "decode_time_seconds_sum 1.9"],
  },
  {
    law: "V18",
    pages: [
      `${observed("e2e_request_latency_seconds", 2, 4)}vllm:request_queue_time_seconds_sum 1\nvllm:request_inference_time_seconds_sum 3\n`,
    ],
    change: ["latency_seconds_sum 4", "latency_seconds_sum 3"],
  },
  {
    law: "V19",
    pages: [
      `${observed("time_to_first_token_seconds", 2, 4)}vllm:request_queue_time_seconds_sum 3\nvllm:request_prefill_time_seconds_sum 1\n`,
    ],
    change: ["token_seconds_sum 4", "token_seconds_sum 1"],
  },
  {
    law: "V20",
    pages: [`${observed("inter_token_latency_seconds", 9, 4)}vllm:request_decode_time_seconds_sum 4\n`],
    change: ["latency_seconds_sum 4", "latency_seconds_sum 3"],
  },
  {
    law: "V20",
    pages: [`${observed("inter_token_latency_seconds", 9, 4)}vllm:request_decode_time_seconds_sum 4\n`],
    change: ["latency_seconds_sum 4", "latency_seconds_sum 5"],
    ...CLEAN_REST,
  },
  {
    law: "V21",
    pages: ["vllm:generation_tokens_total 50\nvllm:request_generation_tokens_sum 40\n"],
    change: ["total 50", "total 39"],
  },
  {
    law: "V21",
    pages: ["vllm:generation_tokens_total 40\nvllm:request_generation_tokens_sum 40\n"],
    change: ["total 40", "total 41"],
    ...CLEAN_REST,
  },
  {
    law: "V22",
    pages: [`vllm:prompt_tokens_total 40\nvllm:request_prompt_tokens_sum 40\n`],
    change: ["total 40", "total 80"],
    ...CLEAN_REST,
  },
  {
    law: "V23",
    pages: [
      "vllm:prompt_tokens_total 40\nvllm:prompt_tokens_cached_total 16\nvllm:request_prefill_kv_computed_tokens_sum 24\n",
    ],
    change: ["sum 24", "sum 40"],
    ...CLEAN_REST,
  },
  {
    law: "V24",
    pages: [
      "vllm:time_to_first_token_seconds_count 2\nvllm:inter_token_latency_seconds_count 8\nvllm:generation_tokens_total 10\n",
    ],
    change: ["latency_seconds_count 8", "latency_seconds_count 10"],
  },
  {
    law: "V25",
    pages: [
      `vllm:time_to_first_token_seconds_count 3918\nvllm:e2e_request_latency_seconds_count 3918\n${success(3918)}`,
    ],
    change: ["token_seconds_count 3918", "token_seconds_count 8060"],
    ...CLEAN_REST,
  },
  {
    law: "V26",
    pages: [
      page(`
        vllm:request_max_num_generation_tokens_count 2
        vllm:request_max_num_generation_tokens_sum 10
        vllm:request_params_n_count 2
        vllm:request_params_n_sum 3
        vllm:e2e_request_latency_seconds_count 3
        vllm:request_generation_tokens_sum 14
      `),
    ],
    change: ["params_n_sum 3", "params_n_sum 2"],
    ...CLEAN_REST,
  },
  {
    law: "V27",
    pages: ["vllm:num_preemptions_total 3\nvllm:request_num_preemptions_sum 3\n"],
    change: ["total 3", "total 2"],
  },
  {
    law: "V28",
    pages: [
      `${observed("request_prompt_tokens", 1, 100)}vllm:request_prompt_tokens_bucket{le="200"} 1\n${observed("request_generation_tokens", 1, 28)}`,
    ],
    change: ["tokens_sum 28", "tokens_sum 29"],
    options: { parameters: { maxModelLen: 128 } },
  },
  {
    law: "V29",
    pages: [`${observed("request_time_per_output_token_seconds", 2, 1)}vllm:request_decode_time_seconds_sum 3\n`],
    change: ["token_seconds_sum 1", "token_seconds_sum 1000"],
  },
  {
    law: "V30",
    pages: [`vllm:request_generation_tokens_sum 3\n${success(3)}`],
    change: ["tokens_sum 3", "tokens_sum 2"],
  },
  {
    law: "V31",
    pages: [`${observed("request_generation_tokens", 2, 20)}${observed("request_params_max_tokens", 2, 20)}`],
    change: ["max_tokens_sum 20", "max_tokens_sum 19"],
  },
  { law: "V32", pages: [success(0)], change: ['vllm:request_success_total{finished_reason="error"} 0\n', ""] },
  {
    law: "V33",
    pages: [
      `${idle}vllm:kv_cache_usage_perc 0\nvllm:e2e_request_latency_seconds_count 3\n${success(3)}`,
      `${idle}vllm:kv_cache_usage_perc 0\nvllm:e2e_request_latency_seconds_count 5\n${success(5)}`,
    ],
    change: ["seconds_count 5", "seconds_count 6"],
    each: [truth(3, 0), truth(5, 1)],
    last: { rest: true },
  },
  {
    law: "V34",
    pages: [config('block_size="16",num_gpu_blocks="40"')],
    change: ['"40"', '"None"'],
  },
  {
    law: "V34",
    pages: [config('block_size="16",num_gpu_blocks="40"'), config('block_size="16",num_gpu_blocks="40"')],
    change: ['"16"', '"32"'],
  },
  {
    law: "V35",
    pages: [
      page(`
        vllm:lora_requests_info{max_lora="2",running_lora_adapters="a,b,c",waiting_lora_adapters=""} 10
        vllm:lora_requests_info{max_lora="2",running_lora_adapters="a,b",waiting_lora_adapters="c"} 20
      `),
    ],
    change: ["} 20", "} 5"],
  },
  {
    law: "V36",
    pages: [
      page(`
        vllm:spec_decode_num_drafts_total 10
        vllm:spec_decode_num_draft_tokens_total 20
        vllm:spec_decode_num_accepted_tokens_total 12
        vllm:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 8
        vllm:spec_decode_num_accepted_tokens_per_pos_total{position="1"} 4
        vllm:generation_tokens_total 22
      `),
    ],
    change: ['"1"} 4', '"1"} 5'],
  },
  {
    law: "V37",
    pages: [
      'vllm:admission_rejections_total{reason="max_num_queued_reqs"} 0\nvllm:prompt_tokens_total 5\nvllm:generation_tokens_total 5\nvllm:request_success_total 1\nvllm:prefix_cache_queries_total 5\n',
      'vllm:admission_rejections_total{reason="max_num_queued_reqs"} 2\nvllm:prompt_tokens_total 5\nvllm:generation_tokens_total 5\nvllm:request_success_total 1\nvllm:prefix_cache_queries_total 5\n',
    ],
    change: ["queries_total 5", "queries_total 9"],
    each: [{ truth: { requests: 1, refused: 0 } }, { truth: { requests: 3, refused: 2 } }],
  },
  {
    law: "V38",
    pages: ['vllm:engine_sleep_state{sleep_state="awake"} 1\nvllm:engine_sleep_state{sleep_state="discard_all"} 0\n'],
    change: ['"discard_all"} 0', '"discard_all"} 1'],
  },
  {
    law: "V39",
    pages: [
      `${idle}http_requests_total{handler="/v1/completions",method="POST",status="2xx"} 5\nvllm:request_params_n_count 5\n`,
    ],
    change: ["n_count 5", "n_count 10"],
  },
  {
    law: "V40",
    pages: [
      page(`
        vllm:num_requests_running{engine="0"} 1
        vllm:num_requests_running{engine="1"} 1
        vllm:prompt_tokens_total{engine="0"} 5
        vllm:prompt_tokens_total{engine="1"} 5
      `),
    ],
    change: ['vllm:prompt_tokens_total{engine="1"} 5\n', ""],
  },
  { law: "V41", ...littles(110), change: ["inference_time_seconds_sum 110", "inference_time_seconds_sum 140"] },
  { law: "V42", ...littles(110), change: ["inference_time_seconds_sum 110", "inference_time_seconds_sum 140"] },
  {
    law: "V43",
    pages: ["vllm:iteration_tokens_total_count 100\n", "vllm:iteration_tokens_total_count 150\n"],
    change: ["150", "250"],
    options: { parameters: { minStepMs: 10 } },
  },
];
