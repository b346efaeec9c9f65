/** Tests that the repositories under examples/ load and answer: a batched classifier, speech as an ensemble, and LLM models. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { hostTriton, type TritonHosted } from "./child.ts";

setDefaultTimeout(30_000);

let server: TritonHosted;
beforeAll(async () => {
  server = await hostTriton([`--model-repository=${new URL("../../examples/triton", import.meta.url).pathname}`]);
});
afterAll(async () => {
  await server.stop();
});

const infer = async (path: string, name: string, shape: readonly number[]) => {
  const data = Array.from({ length: shape.reduce((all, one) => all * one, 1) }, () => 0.5);
  const body = JSON.stringify({ inputs: [{ name, shape, datatype: "FP32", data }] });
  const response = await fetch(`${server.url}/v2/models/${path}/infer`, { method: "POST", body });
  expect(response.status).toBe(200);
  return (await response.json()) as { model_version: string; outputs: { name: string; shape: number[] }[] };
};
const sample = async (series: string) => {
  const page = await (await fetch(`${server.metrics}/metrics`)).text();
  return Number(
    page
      .split("\n")
      .find((line) => line.startsWith(series))
      ?.split(" ")
      .at(-1),
  );
};

test("eight images sent separately form batches; versions are counted separately", async () => {
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => infer("vision/versions/2", "image", [1, 3, 32, 32])),
  );
  expect(answers[0]).toMatchObject({ model_version: "2", outputs: [{ name: "scores", shape: [1, 10] }] });
  expect((await infer("vision/versions/1", "image", [8, 3, 32, 32])).model_version).toBe("1");
  expect(await sample('nv_inference_count{model="vision",version="2"}')).toBe(8);
  expect(await sample('nv_inference_exec_count{model="vision",version="2"}')).toBeLessThan(8);
  expect(await sample('nv_inference_count{model="vision",version="1"}')).toBe(8);
  expect(await sample('nv_inference_exec_count{model="vision",version="1"}')).toBe(1);
});

test("a speech request runs both steps of its ensemble", async () => {
  const { outputs } = await infer("voice", "audio", [1, 160]);
  expect(outputs).toMatchObject([{ name: "token_ids", shape: [1, 16] }]);
  for (const name of ["voice", "voice_features", "voice_decoder"])
    expect(await sample(`nv_inference_request_success{model="${name}",version="1"}`)).toBe(1);
});

test("the writer knows its adapters; the summarizer gives one answer, also by /infer", async () => {
  const generate = async (model: string, body: object) =>
    (await (
      await fetch(`${server.url}/v2/models/${model}/generate`, { method: "POST", body: JSON.stringify(body) })
    ).json()) as {
      readonly text_output?: string;
      readonly error?: string;
    };
  const asked = { text_input: "Dear Sir", max_tokens: 3 };
  expect((await generate("writer", { ...asked, lora_name: "formal" })).text_output).toBeString();
  expect((await generate("writer", { ...asked, lora_name: "rude" })).error).toContain("rude");
  const texts = { name: "text_input", shape: [1], datatype: "BYTES", data: ["A long story"] };
  const most = { name: "sampling_param_max_tokens", shape: [1], datatype: "INT32", data: [4] };
  const seed = { name: "sampling_param_seed", shape: [1], datatype: "UINT64", data: [3] };
  const response = await fetch(`${server.url}/v2/models/summarizer/infer`, {
    method: "POST",
    body: JSON.stringify({ inputs: [texts, most, seed], outputs: [{ name: "text_output" }] }),
  });
  const { outputs } = (await response.json()) as { readonly outputs: readonly { readonly data: readonly string[] }[] };
  const whole = await generate("summarizer", {
    text_input: "A long story",
    sampling_param_max_tokens: 4,
    sampling_param_seed: 3,
  });
  expect(outputs[0]!.data).toEqual([whole.text_output!]);
});

test("the model in docs/servers/triton.md works, with its configuration, code and request", async () => {
  const docs = readFileSync(new URL("../../docs/servers/triton.md", import.meta.url), "utf8");
  const block = (kind: string, holding: string) =>
    [...docs.matchAll(new RegExp(`^\`\`\`${kind}\\n([^\`]*?)^\`\`\`$`, "gm"))]
      .map(([, text]) => text!)
      .find((text) => text.includes(holding))!;
  const folder = mkdtempSync(join(tmpdir(), "triton-docs-"));
  mkdirSync(join(folder, "copy/1"), { recursive: true });
  writeFileSync(join(folder, "copy/config.pbtxt"), block("", "INPUT0"));
  writeFileSync(join(folder, "copy/model.ts"), block("ts", "INPUT0"));
  const own = await hostTriton([`--model-repository=${folder}`]);
  const [, path, body] = /curl localhost:8000(\S+)[\s\\]+-d '(.*)'/.exec(block("sh", "copy/infer"))!;
  const told = await fetch(`${own.url}${path}`, { method: "POST", body: body! });
  expect([told.status, await told.json()]).toMatchObject([200, { outputs: [{ name: "OUTPUT0", data: [1, 2] }] }]);
  await own.stop(0);
  rmSync(folder, { recursive: true });
});
