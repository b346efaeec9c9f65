/**
 * Checks that a small load moves every family of Triton and TensorRT-LLM that a generation can move, and that the separate
 * metrics port answers like tritonserver.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { metricsDialects } from "../../src/metrics/dialects.ts";
import { checkScrapes } from "../../src/tools/check/index.ts";
import { type HostedServer, hosted } from "../hosted.ts";
import { parseExposition } from "../metrics/parse.ts";
import { identity } from "../metrics/snapshots.ts";
import { serve } from "../server.ts";

let server: HostedServer;
let port: string;
beforeAll(async () => {
  // A pool for two and a half long answers, so that some are preempted.
  const flags = "--timing constant:ttft=8ms,itl=4ms --num-gpu-blocks-override 24 --max-model-len 256 --max-num-seqs 4";
  const triton =
    "--metrics-port 0 --metrics-interval-ms 200 --metrics-config histogram_latencies=true summary_latencies=true";
  server = await hosted([...`${flags} ${triton}`.split(" "), "--disable-uvicorn-access-log"]);
  port = server.metricsUrl!;
});
afterAll(async () => void (await server.stop()));

/** Families that the load moves. GPU and host families also move by polling. */
const MOVE = [
  "nv_inference_request_success",
  "nv_inference_request_failure",
  "nv_inference_count",
  "nv_inference_exec_count",
  "nv_inference_request_duration_us",
  "nv_inference_queue_duration_us",
  "nv_inference_compute_input_duration_us",
  "nv_inference_compute_infer_duration_us",
  "nv_inference_compute_output_duration_us",
  "nv_inference_first_response_histogram_ms",
  "nv_inference_request_summary_us",
  "nv_inference_queue_summary_us",
  "nv_inference_compute_input_summary_us",
  "nv_inference_compute_infer_summary_us",
  "nv_inference_compute_output_summary_us",
  "nv_energy_consumption",
  "nv_gpu_utilization",
  "nv_gpu_power_usage",
  "nv_trt_llm_request_metrics",
  "nv_trt_llm_runtime_memory_metrics",
  "nv_trt_llm_kv_cache_block_metrics",
  "nv_trt_llm_inflight_batcher_metrics",
  "nv_trt_llm_general_metrics",
  "nv_llm_input_token_len",
  "nv_llm_output_token_len",
] as const;
/** A family that only a failing or refusing engine moves: test/metrics/triton/triton.sim.test.ts. */
const NOT_BY_GOOD_LOAD = "nv_inference_request_failure";

async function page(path = "/metrics") {
  const answer = await fetch(`${port}${path}`);
  return { answer, text: await answer.text() };
}
const families = (text: string) => new Map(parseExposition(text).map(({ name, text: lines }) => [name, lines]));

const ask = (stream: boolean, max_tokens: number) =>
  fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ prompt: "one two three ".repeat(12), max_tokens, ignore_eos: true, stream }),
  }).then((answer) => answer.text());

test("every family moves, and every page satisfies the laws", async () => {
  const scrapes: { text: string; atS: number }[] = [];
  const still = new Set<string>(MOVE.filter((name) => name !== NOT_BY_GOOD_LOAD));
  const first = families((await page()).text);
  const startMs = performance.now();
  for (let round = 0; round < 20 && still.size > 0; round++) {
    let open = true;
    const answers = Promise.all([60, 100, 140, 180, 180].map((tokens, i) => ask(i % 2 === 0, tokens))).finally(() => {
      open = false;
    });
    while (open) {
      const { text } = await page();
      scrapes.push({ text, atS: (performance.now() - startMs) / 1000 });
      for (const [name, lines] of families(text)) if (lines !== first.get(name)) still.delete(name);
      await Bun.sleep(20);
    }
    await answers;
  }
  expect([...still]).toEqual([]);
  expect(checkScrapes(scrapes).violated.map(({ id, violations }) => [id, violations[0]])).toEqual([]);
}, 60_000);

test("all families of a generation move, and the others have a stated reason", () => {
  const shown = { ...identity, triton: { ...identity.triton, cpu: true, histograms: true, quantiles: [0.5] } };
  const rows = [...metricsDialects.triton.rows(shown), ...metricsDialects.trtllm.rows(shown)];
  const moving = rows.filter(({ proof }) => "moves" in proof).map(({ name }) => name);
  expect(MOVE.filter((name) => !moving.includes(name))).toEqual([]);
  const by = readFileSync(join(import.meta.dir, "../metrics/triton/poll.test.ts"), "utf8");
  expect(moving.filter((name) => !(MOVE as readonly string[]).includes(name) && !by.includes(name))).toEqual([]);
  const standing = rows.filter(({ proof }) => "still" in proof).map(({ name }) => name);
  expect(standing).toEqual([
    "nv_inference_pending_request_count",
    "nv_model_load_duration_secs",
    "nv_pinned_memory_pool_used_bytes",
    "nv_trt_llm_disaggregated_serving_metrics",
  ]);
});

describe("the port", () => {
  test("the port shows only Triton's counters, gauges, histograms and summaries", async () => {
    const { answer, text } = await page();
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "text/plain; charset=utf-8"]);
    const types = parseExposition(text).map(({ type }) => type);
    const order = ["counter", "gauge", "histogram", "summary"];
    expect([...types].sort((a, b) => order.indexOf(a) - order.indexOf(b))).toEqual(types);
    expect(parseExposition(text).filter(({ name }) => !name.startsWith("nv_"))).toEqual([]);
  });

  // Answers recorded from tritonserver 2.51.
  test.each([
    ["GET", "/metrics/", 200, "text/plain; charset=utf-8", /^# HELP nv_inference_request_success/],
    ["GET", "/", 200, "text/plain; charset=utf-8", /^$/],
    ["GET", "/v2/health/ready", 200, "text/plain; charset=utf-8", /^$/],
    ["POST", "/metrics", 405, "text/plain", /^\{"error":"Method Not Allowed"\}$/],
    ["PUT", "/metrics", 405, "text/plain", /^\{"error":"Method Not Allowed"\}$/],
  ] as const)("%s %s", async (method, path, status, type, body) => {
    const answer = await fetch(`${port}${path}`, { method });
    expect([answer.status, answer.headers.get("content-type")]).toEqual([status, type]);
    expect(await answer.text()).toMatch(body);
  });

  test("the server's port has the same families under other paths", async () => {
    for (const dialect of ["triton", "trtllm"]) {
      const answer = await fetch(`${server.url}/metrics/${dialect}`);
      expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "text/plain; charset=utf-8"]);
      expect(parseExposition(await answer.text()).length).toBeGreaterThan(5);
    }
  });
});

test("--allow-metrics=false removes the port and the families, and the server works", async () => {
  const quiet = await serve(["--metrics-port", "0", "--allow-metrics", "false"]);
  try {
    expect(quiet.output()).not.toContain("Triton's metrics");
    const all = await (await fetch(`${quiet.url}/metrics/all`)).text();
    expect(all).not.toContain("nv_");
    expect(all).toContain("vllm:num_requests_running");
  } finally {
    await quiet.stop();
  }
});

test("a port in use ends the start with one line and exit code 2, and no listener stays", async () => {
  const taken = new URL(port).port;
  const start = serve(["--metrics-port", taken]);
  await expect(start).rejects.toThrow(
    `the server ended with 2:\nunderstudy serve: --metrics-port ${taken}: 127.0.0.1:${taken} is in use; choose another port\n`,
  );
});
