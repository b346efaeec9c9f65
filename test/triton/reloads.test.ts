/** Tests which numbers of a model continue when it is loaded again, and which start anew. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../server.ts";
import { hostTriton, type TritonHosted } from "./child.ts";

const base = mkdtempSync(join(tmpdir(), "triton-reloads-"));
let child: TritonHosted;
const MODEL = `platform: "onnxruntime_onnx"
  input { name: "x" data_type: TYPE_FP32 dims: 1 } output { name: "y" data_type: TYPE_FP32 dims: 1 }`;
const write = (more: string) => writeFileSync(join(base, "m/config.pbtxt"), `${MODEL} ${more}`);
beforeAll(async () => {
  mkdirSync(join(base, "m/1"), { recursive: true });
  write("");
  child = await hostTriton([
    `--model-repository=${base}`,
    "--model-control-mode=explicit",
    "--load-time=0",
    "--unload-time=0",
    "--cache-config=local,size=100000",
    "--metrics-config=histogram_latencies=true",
    "--metrics-config=summary_latencies=true",
  ]);
});
afterAll(async () => {
  await child.stop(0);
  rmSync(base, { recursive: true, force: true });
});

async function control(act: "load" | "unload", more = ""): Promise<void> {
  if (act === "load") write(more);
  const answer = await fetch(`${child.url}/v2/repository/models/m/${act}`, { method: "POST" });
  expect([answer.status, await answer.text()]).toEqual([200, ""]);
}

async function ask(value = 1): Promise<void> {
  const inputs = [{ name: "x", shape: [1], datatype: "FP32", data: [value] }];
  const answer = await fetch(`${child.url}/v2/models/m/infer`, { method: "POST", body: JSON.stringify({ inputs }) });
  expect(answer.status).toBe(200);
  await answer.text();
}

/** Returns the values of a family, by the labels without the model's name. */
async function series(name: string): Promise<Record<string, number>> {
  const page = await (await fetch(`${child.metrics}/metrics`)).text();
  const found = page.matchAll(new RegExp(`^${name}\\{([^}]*)\\} (\\S+)$`, "gm"));
  return Object.fromEntries([...found].map(([, labels, value]) => [labels, Number(value)]));
}

/** Returns the successes, inferences and executions in the statistics. */
async function told(): Promise<(number | undefined)[]> {
  const { model_stats: stats } = (await (await fetch(`${child.url}/v2/models/m/stats`)).json()) as {
    model_stats: {
      inference_count: number;
      execution_count: number;
      inference_stats: { success: { count: number } };
    }[];
  };
  const [own] = stats;
  return [own?.inference_stats.success.count, own?.inference_count, own?.execution_count];
}

const M = 'model="m",version="1"';
const success = () => series("nv_inference_request_success");
const buckets = async () => Object.keys(await series("nv_inference_first_response_histogram_ms_bucket")).length;

test("after a changed configuration metrics continue with their families and buckets, statistics start anew", async () => {
  await control("load");
  for (let left = 3; left > 0; left--) await ask();
  expect([await success(), await told(), await buckets()]).toEqual([{ [M]: 3 }, [3, 3, 3], 5]);
  const metric =
    'metric_identifier { family: "nv_inference_first_response_histogram_ms" } histogram_options { buckets: 1 }';
  const changed = `model_metrics { metric_control { ${metric} } } response_cache { enable: true }`;
  await control("load", changed);
  expect([await success(), await told()]).toEqual([{ [M]: 3 }, [0, 0, 0]]);
  await ask(2);
  await ask(2);
  expect([await success(), await told()]).toEqual([{ [M]: 5 }, [2, 1, 1]]);
  expect([await series("nv_inference_count"), await series("nv_inference_request_summary_us_count")]).toEqual([
    { [M]: 4 },
    { [M]: 5 },
  ]);
  expect([await buckets(), await series("nv_cache_num_hits_per_model")]).toEqual([5, {}]);

  await control("unload");
  await eventually(async () => Object.keys(await success()).length === 0);
  await control("load", changed);
  expect([await success(), await told(), await buckets()]).toEqual([{ [M]: 0 }, [0, 0, 0], 2]);
  expect(await series("nv_cache_num_hits_per_model")).toEqual({ [M]: 0 });
});

test("other tags make other series; the former ones disappear, except failures", async () => {
  await control("load", 'metric_tags { key: "team" value: "blue" }');
  await eventually(async () => Object.keys(await success()).length === 1);
  await ask();
  expect(await success()).toEqual({ [`_team="blue",${M}`]: 1 });
  expect(Object.keys(await series("nv_inference_request_failure")).length).toBe(8);
});

test("on another GPU the former GPU's series disappears and the core's continues; a failed load changes neither", async () => {
  const on = (gpus: string) => `instance_group { kind: KIND_GPU gpus: [ ${gpus} ] }`;
  await control("load", on("0, 1"));
  for (let left = 4; left > 0; left--) await ask();
  const byGpu = async () =>
    Object.entries(await success()).map(([labels, value]) => [/gpu_uuid="[^"]*(\d)"/.exec(labels)?.[1] ?? "", value]);
  expect((await byGpu()).map(([gpu]) => gpu)).toEqual(["", "0", "1"]);
  const before = new Map((await byGpu()) as [string, number][]);
  await control("load", on("1, 2"));
  await ask();
  const now = new Map((await byGpu()) as [string, number][]);
  expect([...now.keys()]).toEqual(["", "1", "2"]);
  expect(now.get("")).toBe(before.get("")!);
  expect(now.get("1")! + now.get("2")!).toBe(before.get("1")! + 1);

  await control("load", on("0"));
  await ask();
  const kept = new Map((await byGpu()) as [string, number][]);
  write("instance_group { kind: KIND_GPU gpus: [ 1 ] count: 20000 }");
  const failed = await fetch(`${child.url}/v2/repository/models/m/load`, { method: "POST" });
  expect([failed.status, await failed.text()]).toEqual([400, expect.stringContaining("20000 instances")]);
  await ask();
  const after = new Map((await byGpu()) as [string, number][]);
  expect([...after]).toEqual([
    ["", kept.get("")!],
    ["0", kept.get("0")! + 1],
  ]);
});
