/** Tests that folders with the features of public examples are accepted as they are: loaded, inferred and counted. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../server.ts";
import { hostTriton, type TritonHosted } from "./child.ts";

const FOLDERS: Readonly<Record<string, readonly [config: string, file: string]>> = {
  // Without a platform, so that the file determines it; with a named GPU; with and without commas.
  detector: [
    `max_batch_size : 16
     input [ { name: "image", data_type: TYPE_FP32, format: FORMAT_NCHW, dims: [ 3, -1, -1 ] } ]
     output [ { name: "boxes" data_type: TYPE_FP32 dims: [ -1, 4 ] }, { name: "crops" data_type: TYPE_FP32 dims: [ -1, -1, -1 ] } ]
     instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0, 1 ] } ]
     optimization { execution_accelerators { gpu_execution_accelerator : [ { name : "tensorrt"
       parameters { key: "precision_mode" value: "FP16" } } ] } graph { level: 1 } }`,
    "model.onnx",
  ],
  classifier: [
    `name: "classifier"
     platform: "tensorrt_plan" # a plan
     max_batch_size: 16
     input { name: "crop" data_type: TYPE_FP32 dims: [ 3, 32, 64 ] }
     output { name: "scores" data_type: TYPE_FP32 dims: [ 10 ] label_filename: "labels.txt" }
     dynamic_batching { preferred_batch_size: [ 4, 16 ] max_queue_delay_microseconds: 100 }
     optimization { cuda { graphs: 1 busy_wait_events: 1 } }
     instance_group [ { kind: KIND_GPU } ]
     version_policy: { all { } }`,
    "model.plan",
  ],
  resnet: [
    `platform: "pytorch_libtorch"
     input [ { name: "INPUT__0" data_type: TYPE_FP32 dims: [ 3, 8, 8 ] reshape { shape: [ 1, 3, 8, 8 ] } } ]
     output [ { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 1, 10, 1, 1 ] reshape { shape: [ 1, 10 ] } } ]
     parameters: { key: "DISABLE_OPTIMIZED_EXECUTION" value: { string_value: "true" } }`,
    "model.pt",
  ],
  words: [
    `backend: "python"
     max_batch_size: 16
     input [ { name: "scores" data_type: TYPE_FP32 dims: [ 10 ] } ]
     output [ { name: "text" data_type: TYPE_STRING dims: [ 1 ] } ]
     instance_group [ { count: 1 kind: KIND_CPU } ]
     model_metrics { metric_control: [ { metric_identifier: { family: "nv_inference_first_response_histogram_ms" }
       histogram_options: { buckets: [ 1, 2.5, 4000 ] } }, { metric_identifier: { family: "nv_other" }
       histogram_options: { buckets: 1 } } ] }
     parameters: { key: "EXECUTION_ENV_PATH", value: { string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }`,
    "model.py",
  ],
  reader: [
    `name: "reader" platform: "ensemble" max_batch_size: 16
     input [ { name: "image" data_type: TYPE_FP32 dims: [ 3, -1, -1 ] } ]
     output [ { name: "text" data_type: TYPE_STRING dims: [ 1 ] } ]
     ensemble_scheduling { step [
       { model_name: "detector" model_version: -1 input_map { key: "image" value: "image" }
         output_map { key: "crops" value: "crop" } },
       { model_name: "classifier" model_version: -1 input_map { key: "crop" value: "crop" }
         output_map { key: "scores" value: "scores" } },
       { model_name: "words" model_version: -1 input_map { key: "scores" value: "scores" }
         output_map { key: "text" value: "text" } } ] }`,
    "keep",
  ],
};

const LABELS = ["cat", "dog", "", "Käfer", "a:b", "5", "6", "7", "8", "9"];

let folder: string;
let server: TritonHosted;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "triton-published-"));
  for (const [name, [config, file]] of Object.entries(FOLDERS)) {
    mkdirSync(join(folder, name, "1"), { recursive: true });
    writeFileSync(join(folder, name, "config.pbtxt"), config);
    writeFileSync(join(folder, name, "1", file), "");
  }
  writeFileSync(join(folder, "classifier", "labels.txt"), LABELS.join("\n"));
  server = await hostTriton([
    `--model-repository=${folder}`,
    "--model-control-mode=explicit",
    "--load-model=*",
    "--load-time=0",
    "--unload-time=0",
    "--metrics-config=histogram_latencies=true",
  ]);
});
afterAll(async () => {
  await server.stop(0);
  rmSync(folder, { recursive: true, force: true });
});

const get = async (path: string) => (await fetch(`${server.url}/v2/models/${path}`)).json();

test("instance groups have an instance per named GPU, or GPU 0 if they name none", async () => {
  expect(await get("detector/config")).toMatchObject({
    platform: "onnxruntime_onnx",
    instance_group: [{ name: "detector_0", kind: "KIND_GPU", count: 2, gpus: [0, 1] }],
  });
  expect(await get("classifier/config")).toMatchObject({ instance_group: [{ kind: "KIND_GPU", count: 1, gpus: [0] }] });
});

const ask = async (name: string, input: string, shape: readonly number[]) => {
  const data = new Array(shape.reduce((all, size) => all * size, 1)).fill(0);
  const body = JSON.stringify({ inputs: [{ name: input, datatype: "FP32", shape, data }] });
  const answer = await fetch(`${server.url}/v2/models/${name}/infer`, { method: "POST", body });
  return (await answer.json()) as { outputs?: { name: string; shape: number[] }[] };
};

test("each model answers and is counted; in an ensemble drawn tensors fit the next step", async () => {
  const shapes = async (...asked: Parameters<typeof ask>) =>
    (await ask(...asked)).outputs?.map(({ name, shape }) => [name, shape]);
  expect(await shapes("resnet", "INPUT__0", [3, 8, 8])).toEqual([["OUTPUT__0", [1, 10, 1, 1]]]);
  expect(await shapes("reader", "image", [2, 3, 5, 7])).toEqual([["text", [2, 1]]]);
  const counted = Object.keys(FOLDERS).map(async (name) => {
    const { model_stats: stats } = (await get(`${name}/stats`)) as {
      model_stats: { inference_count: number; inference_stats: { success: { count: number } } }[];
    };
    return [name, stats[0]!.inference_stats.success.count, stats[0]!.inference_count];
  });
  expect(await Promise.all(counted)).toEqual([
    ["detector", 1, 2],
    ["classifier", 1, 2],
    ["resnet", 1, 1],
    ["words", 1, 2],
    ["reader", 1, 2],
  ]);
});

const load = (name: string) => fetch(`${server.url}/v2/repository/models/${name}/load`, { method: "POST" });

test("classes have the labels of the model's file, or of the ensemble's step; a missing file makes the load fail", async () => {
  const put = (name: string, config: string) => {
    mkdirSync(join(folder, name, "1"), { recursive: true });
    writeFileSync(join(folder, name, "config.pbtxt"), config);
  };
  put(
    "best",
    `platform: "ensemble" max_batch_size: 16
     input { name: "crop" data_type: TYPE_FP32 dims: [ 3, 32, 64 ] }
     output { name: "best" data_type: TYPE_FP32 dims: [ 10 ] }
     ensemble_scheduling { step { model_name: "classifier" model_version: -1
       input_map { key: "crop" value: "crop" } output_map { key: "scores" value: "best" } } }`,
  );
  expect((await load("best")).status).toBe(200);
  for (const [name, output] of [
    ["classifier", "scores"],
    ["best", "best"],
  ]) {
    const shape = [1, 3, 32, 64];
    const inputs = [{ name: "crop", datatype: "FP32", shape, data: new Array(3 * 32 * 64).fill(0) }];
    const body = JSON.stringify({ inputs, outputs: [{ name: output, parameters: { classification: 10 } }] });
    const answer = await fetch(`${server.url}/v2/models/${name}/infer`, { method: "POST", body });
    const { outputs } = (await answer.json()) as { outputs: { data: string[] }[] };
    const classes = outputs[0]!.data.map((one) => one.replace(/^[\d.]+:/, "")).sort();
    expect(classes).toEqual(LABELS.map((label, at) => (label === "" ? `${at}` : `${at}:${label}`)));
  }
  const unlabelled = (file: string) => `backend: "onnxruntime" input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] }
    output { name: "y" data_type: TYPE_FP32 dims: [ 2 ] label_filename: "${file}" }`;
  const at = `load failed for model 'unlabelled': version 1 is at UNAVAILABLE state:`;
  const path = join(folder, "unlabelled");
  for (const [file, why] of [
    ["none.txt", `Internal: failed to open text file for read ${path}/none.txt: No such file or directory;\n`],
    [
      "../labels.txt",
      `Unsupported: label file path '${path}/../labels.txt' for output 'y' in model 'unlabelled' is outside model directory;\n`,
    ],
  ]) {
    put("unlabelled", unlabelled(file!));
    expect(await (await load("unlabelled")).json()).toEqual({ error: `${at} ${why}` });
  }
});

test("a model has its own buckets of first-response times; new ones take effect after an unload and a load", async () => {
  const bounds = async () => {
    const page = await (await fetch(`${server.metrics}/metrics`)).text();
    const rows = page.matchAll(/^nv_inference_first_response_histogram_ms_bucket\{model="words",.*le="(.+)"/gm);
    return [...rows].map(([, bound]) => bound).join(" ");
  };
  const order = async (what: "load" | "unload") => {
    const answer = await fetch(`${server.url}/v2/repository/models/words/${what}`, { method: "POST" });
    expect(answer.status).toBe(200);
  };
  expect(await bounds()).toBe("1 2.5 4000 +Inf");
  expect(server.output()).toContain("Metric family 'nv_other' in 'metric_identifier' is not a customizable metric");
  const file = join(folder, "words", "config.pbtxt");
  writeFileSync(file, FOLDERS.words![0].replace("1, 2.5, 4000", "7, 9"));
  await order("load");
  expect(await bounds()).toBe("1 2.5 4000 +Inf");
  await order("unload");
  await eventually(async () => (await bounds()) === "");
  await order("load");
  expect(await bounds()).toBe("7 9 +Inf");
});
