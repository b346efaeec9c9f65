/** Examples of the laws that hold for every page. */
import { type Example, page } from "./example.ts";

const HISTOGRAM = page(`
  # TYPE h histogram
  h_bucket{le="1"} 2
  h_bucket{le="5"} 3
  h_bucket{le="+Inf"} 3
  h_sum 4
  h_count 3
`);
const EMPTY = page(`
  # TYPE h histogram
  h_bucket{le="1"} 0
  h_bucket{le="+Inf"} 0
  h_sum 0
  h_count 0
`);
const counter = (value: number) => `# TYPE x_total counter\nx_total ${value}\n`;
const triton = (requests: number, us: number) =>
  `nv_inference_request_success{model="m"} ${requests}\nnv_inference_request_duration_us{model="m"} ${us}\n`;
const started = (start: number, x: number, y: number) =>
  `${counter(x)}# TYPE y_total counter\ny_total ${y}\nprocess_start_time_seconds ${start}\n`;
const idle = (drifting: number) =>
  `vllm:num_requests_running 0\nvllm:drifting ${drifting}\n# TYPE n_total counter\nn_total 5\n`;

export const general: readonly Example[] = [
  { law: "G01", pages: ['x{a="b"} 1\ny 1\n'], change: ['"b"} 1', '"\\q"} 1'] },
  { law: "G02", pages: ['x{a="1"} 1\nx{a="2"} 1\n'], change: ['a="2"', 'a="1"'] },
  { law: "G03", pages: ["# TYPE x gauge\nx 1\n"], change: ["x 1\n", "x 1\n# TYPE x gauge\n"] },
  { law: "G03", pages: ["# HELP x one\nx 1\n", "# HELP x one\nx 1\n"], change: ["one", "two"] },
  { law: "G04", pages: ["x 1\n"], change: ["1", "NaN"] },
  { law: "G05", pages: [HISTOGRAM], change: ['le="5"} 3', 'le="5"} 1'] },
  { law: "G06", pages: [HISTOGRAM], change: ["h_count 3", "h_count 4"] },
  { law: "G06", pages: [HISTOGRAM], change: ['h_bucket{le="+Inf"} 3\n', ""] },
  { law: "G07", pages: [EMPTY], change: ["h_sum 0", "h_sum 1"] },
  { law: "G08", pages: [HISTOGRAM], change: ["h_sum 4", "h_sum 4000"] },
  {
    law: "G09",
    pages: [HISTOGRAM, HISTOGRAM],
    change: ['le="5"', 'le="6"'],
  },
  { law: "G21", pages: [counter(5)], change: ["total 5", "total 18446744073709551000"] },
  {
    law: "G21",
    // The mean over all requests is three minutes, but the mean over the two of this second is centuries.
    pages: [triton(100_000_000, 9e12), triton(100_000_002, 9_000_000_130_000)],
    change: ["9000000130000", "18455744073709412"],
  },
  { law: "G10", pages: [counter(5), counter(6)], change: ["total 6", "total 4"] },
  {
    law: "G11",
    pages: [started(100, 5, 5), started(200, 1, 1)],
    // One process continues, and only one of its counters was reset.
    change: [started(200, 1, 1), started(100, 1, 6)],
  },
  { law: "G12", pages: ['x{a="1"} 1\nx{a="2"} 1\n', 'x{a="1"} 1\nx{a="2"} 1\n'], change: ['x{a="2"} 1\n', ""] },
  {
    law: "G13",
    pages: ['vllm:x{engine="0"} 1\n', 'vllm:x{engine="0"} 1\n'],
    change: ['"0"} 1\n', '"0"} 1\nvllm:x{engine="0",request="7"} 1\n'],
  },
  {
    law: "G13",
    pages: ['x{id="7"} 1\n'],
    change: ['"7"', '"cmpl-5f0e2a4c9b1d4e8f"'],
  },
  { law: "G14", pages: ["vllm:prompt_tokens_total 5\n"], change: ["5", "5.5"] },
  { law: "G15", pages: ["vllm:kv_cache_usage_perc 0.5\n"], change: ["0.5", "50"] },
  { law: "G16", pages: [idle(1), idle(1)], change: ["drifting 1", "drifting 2"] },
  {
    law: "G17",
    pages: ["x_created 100\n", "x_created 100\n"],
    change: ["100", "101"],
  },
  {
    law: "G18",
    pages: ["# TYPE x gauge\nx 1\n"],
    change: ["# TYPE x gauge\nx 1\n", "# TYPE x_total gauge\nx_total 1\n"],
  },
  {
    law: "G19",
    pages: ["vllm:num_requests_running 0\n"],
    change: ["running 0", "running 3"],
    last: { rest: true },
  },
  {
    law: "G20",
    pages: [
      "vllm:iteration_tokens_total_count 1\nvllm:generation_tokens_total 8\n",
      "vllm:iteration_tokens_total_count 2\nvllm:generation_tokens_total 16\n",
    ],
    change: ["16", "17"],
    options: { parameters: { maxNumSeqs: 8 } },
  },
];
