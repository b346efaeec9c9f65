/**
 * Tests that the check finds metric bugs that were reported for real servers. Each has a pair of pages; the numbers are those
 * of our list of reports.
 */
import { expect, test } from "bun:test";
import { checkScrapes, type Scrape } from "../../../src/tools/check/index.ts";
import { page } from "./examples/example.ts";

interface Bug {
  readonly report: string;
  readonly pages: readonly (string | Scrape)[];
  /** Laws that must be violated. Others may be violated, too. */
  readonly laws: readonly string[];
  readonly clean?: true;
}

const E = 'engine="0"';
const gauges = (running: number, waiting: number, usage: number) =>
  page(`
    # TYPE vllm:num_requests_running gauge
    vllm:num_requests_running{${E}} ${running}
    # TYPE vllm:num_requests_waiting gauge
    vllm:num_requests_waiting{${E}} ${waiting}
    # TYPE vllm:kv_cache_usage_perc gauge
    vllm:kv_cache_usage_perc{${E}} ${usage}
  `);
const ends = (stop: number, abort: number, e2e: number) =>
  page(`
    # TYPE vllm:request_success_total counter
    vllm:request_success_total{${E},finished_reason="stop"} ${stop}
    vllm:request_success_total{${E},finished_reason="abort"} ${abort}
    vllm:e2e_request_latency_seconds_count{${E}} ${e2e}
  `);
const rest = (text: string): Scrape => ({ text, rest: true });
const counter = (name: string, value: number) => `# TYPE ${name} counter\n${name}{${E}} ${value}\n`;
const triton = (model: string, success: number, count: number, exec: number) =>
  page(`
    nv_inference_request_success{model="${model}",version="1"} ${success}
    nv_inference_count{model="${model}",version="1"} ${count}
    nv_inference_exec_count{model="${model}",version="1"} ${exec}
    nv_inference_request_duration_us{model="${model}",version="1"} ${success * 1000}
  `);

const bugs: readonly Bug[] = [
  {
    report: "27 vllm#31503: an abort reaches the latency and not the counter of ends",
    pages: [ends(2, 0, 2), ends(2, 0, 3)],
    laws: ["V15"],
  },
  {
    report: "28 vllm#29928: the KV gauge stays at 99 % after all were cancelled",
    pages: [gauges(9, 3, 0.99), rest(gauges(0, 0, 0.99))],
    laws: ["V04", "G19"],
  },
  {
    report: "29 vllm#22545: running and waiting do not return to 0",
    pages: [gauges(9, 3, 0.99), rest(gauges(2, 1, 0))],
    laws: ["G19"],
  },
  {
    report: "30 vllm#55634: aborted requests count in prompt_tokens_total only",
    pages: [rest(counter("vllm:prompt_tokens_total", 140) + counter("vllm:request_prompt_tokens_sum", 100))],
    laws: ["V22"],
    clean: true,
  },
  {
    report: "31 vllm#25780: recomputed tokens after a preemption count as hits",
    pages: [
      counter("vllm:prefix_cache_queries_total", 100) +
        counter("vllm:prefix_cache_hits_total", 0) +
        counter("vllm:prompt_tokens_total", 100),
      rest(
        counter("vllm:prefix_cache_queries_total", 200) +
          counter("vllm:prefix_cache_hits_total", 240) +
          counter("vllm:prompt_tokens_total", 100),
      ),
    ],
    laws: ["V06", "V08"],
    clean: true,
  },
  {
    report: "32 vllm#37354, LMCache#2912: a counter gets a negative delta",
    pages: [
      counter("vllm:external_prefix_cache_hits_total", 8448),
      counter("vllm:external_prefix_cache_hits_total", 768) + counter("vllm:prompt_tokens_total", 9000),
    ],
    laws: ["G10"],
  },
  {
    report: "33 vllm#8115: 8060 first tokens of 3918 requests",
    pages: [rest(`vllm:time_to_first_token_seconds_count{${E}} 8060\n${gauges(0, 0, 0)}${ends(3918, 0, 3918)}`)],
    laws: ["V25"],
    clean: true,
  },
  {
    report: "33, the other way round: ends without first tokens",
    pages: [`vllm:time_to_first_token_seconds_count{${E}} 10\n${ends(12, 0, 12)}`],
    laws: ["V14"],
  },
  {
    report: "34 vllm#8178: metrics vanish",
    pages: [gauges(1, 0, 0.1), gauges(1, 0, 0.1).replace(/.*waiting.*\n/g, "")],
    laws: ["G12"],
  },
  {
    report: "36 vllm#56919: a label that breaks the line",
    pages: [`${gauges(1, 0, 0.1)}vllm:x{${E},user="a "b" 12:30"} 1\n`],
    laws: ["G01"],
  },
  {
    report: "36 gpustack#6218: a duplicate _created series",
    pages: [`# TYPE x_created gauge\nx_created{${E}} 1.7e9\nx_created{${E}} 1.7e9\n`],
    laws: ["G02"],
  },
  {
    report: "36: a request id as a label",
    pages: [gauges(1, 0, 0.1), `${gauges(1, 0, 0.1)}vllm:num_requests_running{${E},id="cmpl-7f3a"} 1\n`],
    laws: ["G13"],
  },
  {
    report: "37 vllm-ascend#16639: hits stay 0 while cached tokens are counted",
    pages: [
      counter("vllm:prefix_cache_hits_total", 0) +
        `vllm:prompt_tokens_cached_by_source_total{${E},source="device"} 640\n`,
    ],
    laws: ["V11"],
  },
  {
    report: "37 llm-d-inference-sim#631: a part of the steps is lost",
    pages: [
      `vllm:iteration_tokens_total_sum{${E}} 90\nvllm:prompt_tokens_by_source_total{${E},source="local_compute"} 50\nvllm:generation_tokens_total{${E}} 50\n`,
    ],
    laws: ["V13"],
  },
  { report: "38 server#8521, #7713: failures count as successes", pages: [triton("m", 10, 7, 7)], laws: ["N01"] },
  {
    report: "38 server#8125: counters 0 while the summary counts",
    pages: [
      `${triton("m", 0, 0, 0)}nv_inference_request_summary_us_count{model="m",version="1"} 5\nnv_inference_request_summary_us_sum{model="m",version="1"} 500\n`,
    ],
    laws: ["N07"],
  },
  {
    report: "38 server#8463: a duration that ends before its parts",
    pages: [
      `${triton("vllm_model", 1, 1, 1)}${["queue", "compute_input", "compute_infer", "compute_output"].map((part) => `nv_inference_${part}_duration_us{model="vllm_model",version="1"} 900\n`).join("")}`,
    ],
    laws: ["N03"],
  },
  {
    report: "38 server#6494: an ensemble with pending requests",
    pages: ['nv_inference_pending_request_count{model="ensemble",version="1"} 4\n'],
    laws: ["N06"],
  },
  {
    report: "39 tensorrtllm_backend#667: 11041 executions of 232",
    pages: [triton("tensorrt_llm", 232, 232, 11041)],
    laws: ["N02"],
  },
  {
    report: "39 tensorrtllm_backend#645: blocks without their maximum",
    pages: ["used", "free"].map(
      () =>
        'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max"} 0\nnv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used"} 5\nnv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="free"} 5\n',
    ),
    laws: ["T04", "T11"],
  },
  {
    report: "39 tensorrtllm_backend#582: failures stay 0 with 5xx",
    pages: [
      `nv_trt_llm_general_metrics{model="m",version="1",general_type="timestamp"} 0\nnv_llm_input_token_len_count{model="m",version="1"} 9\nnv_llm_output_token_len_count{model="m",version="1"} 4\n${triton("m", 4, 4, 4)}`,
    ],
    laws: ["T10"],
  },
  {
    report: "40 dynamo#2576: an early return leaks a request in flight",
    pages: [
      'dynamo_frontend_requests_started_total{model="m"} 5\ndynamo_frontend_requests_total{model="m",status="success",error_type=""} 5\ndynamo_frontend_inflight_requests{model="m"} 1\ndynamo_frontend_active_requests{model="m"} 0\n',
    ],
    laws: ["D01", "D02"],
  },
  {
    report: "40 dynamo#3035: a gauge named _total",
    pages: ["# TYPE dynamo_x_total gauge\ndynamo_x_total 1\n"],
    laws: ["G18"],
  },
  {
    report: "40 dynamo#2953: the gauge of disconnects falls",
    pages: ["dynamo_frontend_disconnected_clients 3\n", "dynamo_frontend_disconnected_clients 1\n"],
    laws: ["D09"],
  },
  {
    report: "41 sglang#4244: throughput is stale when idle",
    pages: [
      "sglang:num_running_reqs 8\nsglang:gen_throughput 812\n",
      rest("sglang:num_running_reqs 0\nsglang:gen_throughput 812\n"),
    ],
    laws: ["G19"],
  },
  {
    report: "41 sglang#4244 and #26608: a gauge that moves while nothing does",
    pages: [
      rest("sglang:num_running_reqs 0\nsglang:cache_hit_rate 0.5\n"),
      rest("sglang:num_running_reqs 0\nsglang:cache_hit_rate 0.4\n"),
    ],
    laws: ["G16"],
  },
  {
    report: "41 aibrix#1614: one series per rank, with the same labels",
    pages: ["sglang:num_running_reqs 1\nsglang:num_running_reqs 1\n"],
    laws: ["G02"],
  },
  {
    report: "41 sglang#10672: a counter by name, a gauge by type",
    pages: ["# TYPE sglang:prompt_tokens_total gauge\nsglang:prompt_tokens_total 5\n"],
    laws: ["G18"],
  },
  {
    report: "43 geolens#1240: two workers answer in turns",
    pages: [100, 90, 101, 91].map(
      (value) => counter("x_total", value) + counter("y_total", value + 5) + counter("z_total", 7),
    ),
    laws: ["G10"],
  },
  {
    report: "43, with very different workers: what looks like a restart twice is none",
    pages: [1000, 10, 1001, 11].map((value) => ["x", "y", "z"].map((name) => counter(`${name}_total`, value)).join("")),
    laws: ["G11"],
  },
  {
    report: "43, with start times: the process that answers now was there before",
    pages: [
      { text: `${counter("x_total", 5)}process_start_time_seconds 1700000000\n`, atS: 1_700_001_000 },
      { text: `${counter("x_total", 3)}process_start_time_seconds 1700000500\n`, atS: 1_700_001_001 },
    ],
    laws: ["G11"],
  },
  {
    report: "44 server PR#7694: buckets that nobody looks at",
    pages: [
      page(`
      # TYPE nv_inference_first_response_histogram_ms histogram
      nv_inference_first_response_histogram_ms_bucket{le="100"} 2
      nv_inference_first_response_histogram_ms_bucket{le="500"} 1
      nv_inference_first_response_histogram_ms_bucket{le="+Inf"} 2
      nv_inference_first_response_histogram_ms_sum 90
      nv_inference_first_response_histogram_ms_count 2
    `),
    ],
    laws: ["G05"],
  },
  {
    report: "45: the fraction as max − used",
    pages: [
      ["max 100", "used 40", "free 60", "fraction 60"]
        .map((type) => `nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="${type.replace(" ", '"} ')}\n`)
        .join(""),
    ],
    laws: ["T05", "G15"],
  },
];

test.each(bugs.map((bug) => [bug.report, bug] as const))("%s is found", (_, { pages, laws, clean = false }) => {
  const { violated } = checkScrapes(pages, { clean });
  const broken = violated.map(({ id }) => id);
  expect(laws.filter((id) => !broken.includes(id))).toEqual([]);
  for (const { violations } of violated) expect(violations.length).toBeGreaterThan(0);
});

test("a restart is not reported as a bug", () => {
  const running = (value: number) => ["x", "y", "z"].map((name) => counter(`${name}_total`, value)).join("");
  const report = checkScrapes([running(1000), running(3), running(9)]);
  expect(report.violated).toEqual([]);
  expect(report.restarts).toBe(1);
});
