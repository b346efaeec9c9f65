/** Tests known behaviour of current real engines: a note with its source if that behaviour can be the cause, else a violation. */
import { expect, test } from "bun:test";
import { checkScrapes } from "../../../src/tools/check/index.ts";
import { checkTable } from "../../../src/tools/check/report.ts";
import { page } from "./examples/example.ts";

const verdictOf = (law: string, text: string, rest = false): string =>
  checkScrapes([{ text, rest }], { only: [law] }).laws[0]!.verdict;

const ends = (stop: number, abort: number) =>
  page(`
    vllm:request_success_total{finished_reason="stop"} ${stop}
    vllm:request_success_total{finished_reason="abort"} ${abort}
    vllm:request_success_total{finished_reason="error"} 0
  `);

test.each([
  ["without aborts by the engine, queue and inference fit into the latency", 0, 4, "held"],
  ["without aborts by the engine, queue and inference exceed the latency", 0, 6, "violated"],
  ["a request aborted by the engine before its first token has times since the clock's zero", 1, 90_000, "note"],
])("V18: %s", (_, aborted, inferenceS, verdict) => {
  const text = page(`
    vllm:request_queue_time_seconds_sum 0.5
    vllm:request_inference_time_seconds_sum ${inferenceS}
    vllm:e2e_request_latency_seconds_sum 5
    vllm:e2e_request_latency_seconds_count 3
  `);
  expect(verdictOf("V18", ends(3 - aborted, aborted) + text)).toBe(verdict);
});

test.each([
  [0, 100, "held"],
  [0, 101, "violated"],
  [2, 102, "held"],
  [2, 103, "violated"],
  [2, 99, "violated"],
])("V24: %i aborted by the engine, %i observed of 100 tokens: %s", (aborted, observed, verdict) => {
  const text = page(`
    vllm:time_to_first_token_seconds_count 5
    vllm:inter_token_latency_seconds_count ${observed - 5}
    vllm:generation_tokens_total 100
  `);
  expect(verdictOf("V24", ends(5, aborted) + text)).toBe(verdict);
});

test.each([
  ["", 4, "held"],
  ["", 5, "violated"],
  ['nv_trt_llm_request_metrics{model="m",version="1",request_type="active"} 0\n', 5, "note"],
])("N09: with %j, %i first responses of 4 requests: %s", (more, responses, verdict) => {
  const text = page(`
    nv_inference_request_success{model="m",version="1"} 3
    nv_inference_request_failure{model="m",version="1",reason="BACKEND"} 1
    nv_inference_first_response_histogram_ms_count{model="m",version="1"} ${responses}
    nv_inference_first_response_histogram_ms_sum{model="m",version="1"} 9
  `);
  expect(verdictOf("N09", more + text, true)).toBe(verdict);
});

test.each([
  ["as many", [5, 5, 5], "held"],
  ["all fewer, as after a load over the loaded model", [2, 2, 2], "not checkable"],
  ["fewer successes alone", [2, 5, 5], "violated"],
  ["all more", [6, 6, 6], "violated"],
] as const)(
  "N11: the statistics tell %s than five on the page: %s",
  (_, [success, inferences, executions], verdict) => {
    const M = 'model="m",version="1"';
    const text = page(`
    nv_inference_request_success{${M}} 5
    nv_inference_count{${M}} 5
    nv_inference_exec_count{${M}} 5
    nv_inference_request_duration_us{${M}} 50
  `);
    const inferenceStats = { success: { count: success, ns: 1e6 } };
    const counts = { inference_count: inferences, execution_count: executions, inference_stats: inferenceStats };
    const tritonStats = { model_stats: [{ name: "m", version: "1", ...counts }] };
    expect(checkScrapes([{ text, rest: true, tritonStats }], { only: ["N11"] }).laws[0]!.verdict).toBe(verdict);
  },
);

test("N11: a model that was loaded again is reported even if the law held for another", () => {
  const counters = (model: string) =>
    ["request_success", "count", "exec_count", "request_duration_us"]
      .map((name) => `nv_inference_${name}{model="${model}",version="1"} 5\n`)
      .join("");
  const statistics = (name: string, count: number) => ({
    ...{ name, version: "1", inference_count: count, execution_count: count },
    inference_stats: { success: { count, ns: 1e6 } },
  });
  const tritonStats = { model_stats: [statistics("m", 5), statistics("again", 2)] };
  const text = page(counters("m") + counters("again"));
  const report = checkScrapes([{ text, rest: true, tritonStats }], { only: ["N11"] });
  const table = checkTable([{ name: "page", report }], { all: true });
  expect(table).toMatch(/held +N11 .*\(in part not checkable: all metrics of again are ahead of its statistics/);
});

const parts = (model: string, us: number) =>
  page(`
    nv_inference_request_success{model="${model}",version="1"} 1
    nv_inference_request_duration_us{model="${model}",version="1"} 100
    nv_inference_queue_duration_us{model="${model}",version="1"} 10
    nv_inference_compute_input_duration_us{model="${model}",version="1"} 10
    nv_inference_compute_infer_duration_us{model="${model}",version="1"} ${us}
    nv_inference_compute_output_duration_us{model="${model}",version="1"} 10
  `);

test.each([
  ["m", 90, "violated"],
  ["ensemble", 90, "not checkable"],
  ["ensemble", 60, "held"],
])("N03: of %j, parts of %i µs in 100: %s", (model, us, verdict) => {
  expect(verdictOf("N03", parts(model, us))).toBe(verdict);
});

test("N03: an ensemble with parallel steps is reported even if the law held for the other models", () => {
  const reportOf = (ensembleUs: number) => {
    const report = checkScrapes([parts("m", 60) + parts("ensemble", ensembleUs)], { only: ["N03"] });
    return checkTable([{ name: "page", report }], { all: true })
      .split("\n")
      .find((line) => line.includes("N03"));
  };
  expect(reportOf(90)).toMatch(/held +N03 .*\(in part not checkable: ensemble adds up its steps, some of which run at/);
  expect(reportOf(60)).not.toContain("in part");
});

test.each([
  ["_team", "held"],
  ["team", "violated"],
])("G13: %s on the series of one model of three: %s", (label, verdict) => {
  const families = ["success", "failure", "count"].map((name, at) => `nv_inference_${name}{model="a${at}"} 1`);
  expect(verdictOf("G13", page(`${families.join("\n")}\nnv_inference_count{${label}="blue",model="b"} 1`))).toBe(
    verdict,
  );
});

test.each([
  [1, 5, 1, "held"],
  [1, 5, 0, "violated"],
  [2, 5, 0, "held"],
  [2, 0, 1, "violated"],
])("T07: of %i engines, %i iterations and %i µs more: %s", (engines, iterations, us, verdict) => {
  const at = (iteration: number, timestamp: number) =>
    page(`
      nv_trt_llm_general_metrics{model="m",version="1",general_type="iteration_counter"} ${iteration}
      nv_trt_llm_general_metrics{model="m",version="1",general_type="timestamp"} ${1.79e15 + timestamp}
      ${Array.from({ length: engines }, (_, i) => `vllm:kv_cache_usage_perc{engine="${i}"} 0`).join("\n")}
    `);
  const { laws } = checkScrapes([at(7, 100), at(7 + iterations, 100 + us)], { only: ["T07"] });
  expect(`${laws[0]!.verdict}`).toBe(verdict);
});

test.each([
  ["V41", 0, "violated"],
  ["V41", 1, "not checkable"],
  ["V42", 0, "violated"],
  ["V42", 1, "not checkable"],
])("%s: a window without its time, %i aborted by the engine in it: %s", (law, aborted, verdict) => {
  const at = (running: number, inferenceS: number, ended: number) =>
    page(`
      vllm:num_requests_running ${running}
      vllm:num_requests_waiting 0
      vllm:request_queue_time_seconds_sum 0
      vllm:request_inference_time_seconds_sum ${inferenceS}
      vllm:num_preemptions_total 0
    `) + ends(0, ended);
  const busy = Array.from({ length: 220 }, () => at(10, 0, 0));
  const pages = [at(0, 0, 0), ...busy, at(0, 10_000, aborted)].map((text, i) => ({ text, atS: i * 0.05 }));
  expect(`${checkScrapes(pages, { only: [law] }).laws[0]!.verdict}`).toBe(verdict);
});
