/**
 * Runs a real Prometheus against a Triton server: its response cache, vLLM's families on its port, and TensorRT-LLM's
 * batcher.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { eventually } from "../server.ts";
import { sized } from "../size.ts";
import { startTriton, type TritonChild } from "../triton/child.ts";
import { expressions, type MetricsQuery, ofTriton, promql, queries, wrong } from "./asked.ts";
import { Prometheus } from "./prometheus.ts";

setDefaultTimeout(60_000);

const folder = mkdtempSync(join(tmpdir(), "prometheus-triton-"));
let server: TritonChild;
let prometheus: Prometheus;
let stopped = false;
let clients: Promise<void>[] = [];

const generate = (model: string, body: object) =>
  fetch(`${server.url}/v2/models/${model}/generate_stream`, { method: "POST", body: JSON.stringify(body) }).then(
    (response) => response.arrayBuffer(),
  );

/**
 * Sends one request after the other. The first client's requests are cached, the others' go to LLM models. The clients send
 * more requests at a time than the batcher schedules.
 */
async function client(at: number): Promise<void> {
  for (let n = 0; !stopped; n++) {
    if (at === 0) await generate("cached", { text_input: `${n % 3}`, sleep_ms: 1 });
    else if (at === 1) await generate("vllm_model", { text_input: "Tell", stream: true, max_tokens: 8 });
    else await generate("ensemble", { text_input: `Tell me ${at}`, stream: true, max_tokens: 10 });
    await Bun.sleep(250);
  }
}

async function complaints(selected: readonly MetricsQuery[]): Promise<string[]> {
  const found: string[] = [];
  for (const query of selected) {
    const fault = wrong(query, false, await prometheus.query(promql(query.expr)));
    if (fault !== undefined) found.push(`${query.id}: ${fault}`);
  }
  return found;
}

async function start(): Promise<void> {
  const root = new URL("../../", import.meta.url).pathname;
  cpSync(`${root}test/triton/models/cached`, join(folder, "models", "cached"), { recursive: true });
  server = await startTriton([
    ...[`${root}src/servers/triton/shipped`, join(folder, "models")].map((path) => `--model-repository=${path}`),
    "--model-control-mode=explicit",
    ...["cached", "vllm_model", "ensemble"].map((name) => `--load-model=${name}`),
    "--cache-config=local,size=1048576",
    ...["summary_latencies=true", "histogram_latencies=true"].map((setting) => `--metrics-config=${setting}`),
    "--capacity-scheduler-policy=GUARANTEED_NO_EVICT",
  ]);
  const scrape_configs = [
    { job_name: "triton", static_configs: [{ targets: [server.metrics.replace("http://", "")] }] },
  ];
  const config = join(folder, "prometheus.yml");
  writeFileSync(config, stringify({ global: { scrape_interval: "1s", scrape_timeout: "1s" }, scrape_configs }));
  prometheus = await Prometheus.start(config, join(folder, "data"));
  clients = Array.from({ length: 3 }, (_, at) => client(at));
  await eventually(async () => (await prometheus.query("rate(nv_inference_request_success[1m]) > 0")).length > 0, 2000);
}
async function stop(): Promise<void> {
  stopped = true;
  await Promise.all(clients);
  await prometheus?.stop();
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
}

const lineOf = async (start: string) =>
  (await (await fetch(`${server.metrics}/metrics`)).text()).split("\n").find((line) => line.startsWith(start))!;

const ALONE = queries.filter(ofTriton);
/** Queries of Triton's families. `/metrics/triton` of the other roles answers those that are not in `ALONE`. */
const OF_FAMILIES = [...queries, ...expressions].filter(({ expr, must }) => /\bnv_/.test(expr) && must !== "none");
test("ten queries need a Triton server", () => {
  expect(ALONE.length).toBe(10);
});

/** Starting a Prometheus takes too long for every run. */
if (sized("triton", { sample: false, whole: true })) {
  beforeAll(start);
  afterAll(stop);

  test("the queries that need a Triton server have the expected results", async () => {
    expect(await complaints(ALONE)).toEqual([]);
  });

  test("a Triton server answers every query that /metrics/triton of the other roles answers", async () => {
    expect(OF_FAMILIES.length).toBeGreaterThan(190);
    // Some rates are NaN until a few scrapes have seen each client.
    await eventually(async () => (await complaints(OF_FAMILIES)).length === 0, 2000).catch(() => {});
    expect(await complaints(OF_FAMILIES)).toEqual([]);
  });

  test("S-TRT-17, 18: the corrected queries return values, and the guides' versions return nothing", async () => {
    const guides = queries.filter(({ id }) => ["Q-000-P22R", "Q-000-P23R", "Q-000-P23"].includes(id));
    expect(guides).toHaveLength(3);
    const long = generate("ensemble", { text_input: "Tell me", stream: true, max_tokens: 600 });
    // While no request is scheduled, the queries give NaN, because they divide 0 by 0.
    await eventually(async () => (await complaints(guides)).length === 0, 2000);
    await long;
    const [rate] = await prometheus.query(promql(queries.find(({ id }) => id === "Q-000-P22R")!.expr));
    expect(rate!.value).toBeGreaterThan(0);
  });

  test("S-TRT-20: under overload Triton's own queue stays empty, the batcher's does not, and a batch is one request", async () => {
    let seen = false;
    const burst = Array.from({ length: 60 }, async (_, at) => {
      do await generate("ensemble", { text_input: `More ${at}`, stream: true, max_tokens: 30 });
      while (!seen);
    });
    const peak = async (expr: string) => Number((await prometheus.query(`max(max_over_time(${expr}[1m]))`))[0]?.value);
    const active = 'nv_trt_llm_request_metrics{request_type="active"}';
    try {
      await eventually(async () => (await peak(active)) > 16, 3000);
    } finally {
      seen = true;
    }
    expect(await peak('nv_inference_pending_request_count{model="tensorrt_llm"}')).toBeLessThanOrEqual(8);
    await Promise.all(burst);
    const total = async (name: string) =>
      Number(/ (\d+)$/m.exec(await lineOf(`nv_inference_${name}{model="tensorrt_llm",version="1"}`))![1]);
    // The last request may be counted just after its answer, between the two pages.
    await eventually(async () => (await total("exec_count")) === (await total("count")));
  });
}
