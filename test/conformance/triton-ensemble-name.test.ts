/** Tests the name of Triton's ensemble in its metrics, and that the check recognizes it by its behaviour. */
import { afterAll, expect, test } from "bun:test";
import { type App, createApp } from "../../src/app/create-app.ts";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";
import { checkScrapes, type Parameters } from "../../src/tools/check/index.ts";
import { parseExposition } from "../metrics/parse.ts";

const apps: App[] = [];
afterAll(() => Promise.all(apps.map((app) => app.close(0))));

async function started(...flags: string[]): Promise<App> {
  const resolved = resolveServeConfig(["--timing", "none", "--port", "0", ...flags], {}, () => "");
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  const app = await createApp(resolved.config, { log: () => {} });
  apps.push(app);
  return app;
}

const page = async ({ url }: App) => (await fetch(`${url}/metrics/all`)).text();
const ask = async ({ url }: App, model: string, more: object = {}) => {
  const body = JSON.stringify({ model, prompt: "x", max_tokens: 4, ignore_eos: true, ...more });
  const headers = { "content-type": "application/json" };
  return fetch(`${url}/v1/completions`, { method: "POST", headers, body });
};

const STEPS = ["postprocessing", "preprocessing", "tensorrt_llm"];

test.each([
  ["ensemble", []],
  ["x", ["--served-model-name", "x"]],
  ["x", ["--served-model-name", "x", "y"]],
  ['Qwen/"a"', ["--served-model-name", 'Qwen/"a"']],
  // A model of that name is a step of the ensemble.
  ["ensemble", ["--served-model-name", "tensorrt_llm"]],
] as const)("the ensemble has the name %s with the flags %p", async (name, flags) => {
  const app = await started(...flags);
  expect((await ask(app, flags[1] ?? "")).status).toBe(200);
  const text = await page(app);
  const ofModels = parseExposition(text).filter((family) => family.name.startsWith("nv_inference_"));
  expect(ofModels.length).toBeGreaterThan(8);
  for (const { samples } of ofModels) {
    const models = new Set(samples.map(({ labels }) => labels.find(([label]) => label === "model")![1]));
    expect([...models]).toEqual([name, ...STEPS]);
  }
  const quoted = JSON.stringify(name);
  expect(text).toContain(`nv_inference_request_success{model=${quoted},version="1"} 1\n`);
  expect(text).toContain('nv_inference_request_success{model="tensorrt_llm",version="1"} 1\n');
  expect(checkScrapes([{ text }]).violated).toEqual([]);
});

test("an ensemble of any name with pending requests is found after its first answer", async () => {
  const app = await started(
    "--served-model-name",
    "x",
    "--bug",
    "ensemble-pending",
    "--timing",
    "constant:ttft=2ms,itl=1s",
  );
  expect((await ask(app, "x", { max_tokens: 1 })).status).toBe(200);
  const running = await ask(app, "x", { stream: true });
  const text = await page(app);
  await running.body?.cancel();
  expect(text).toContain('nv_inference_pending_request_count{model="x",version="1"} 1\n');
  const found = checkScrapes([{ text }]).violated;
  expect(found.map(({ id }) => id)).toEqual(["N06"]);
});

const RECORDED_US = { x: 7, postprocessing: 415, preprocessing: 108, tensorrt_llm: 139 };

/**
 * Returns a page of a server with TensorRT-LLM's executor: models with two requests each, and their queue times in
 * microseconds.
 */
function pageOf(queuedUs: Readonly<Record<string, number>>): string {
  const each = Object.entries(queuedUs).map(([model, us]) => {
    const labels = `{model="${model}",version="1"}`;
    const pending = model === "x" ? 3 : 0;
    return [
      `nv_inference_request_success${labels} 2`,
      `nv_inference_queue_duration_us${labels} ${us}`,
      `nv_inference_pending_request_count${labels} ${pending}`,
    ];
  });
  const lines = [0, 1, 2].flatMap((row) => each.map((of) => of[row]!));
  return `${[...lines, 'nv_trt_llm_request_metrics{model="tensorrt_llm",version="1",request_type="active"} 0'].join("\n")}\n`;
}

test.each([
  ["a recorded page with one model in addition to the steps", RECORDED_US, {}, true],
  ["the same with tensorrt_llm_bls", { ...RECORDED_US, tensorrt_llm_bls: 300 }, {}, true],
  ["a model with queue time is not an ensemble", { ...RECORDED_US, x: 280 }, {}, false],
  ["two candidates, so the ensemble is unknown", { ...RECORDED_US, y: 7 }, {}, false],
  ["a page without the steps", { x: 7, tensorrt_llm: 139 }, {}, false],
  ["the user's setting has priority", RECORDED_US, { ensembles: ["other"] }, false],
] as const)("the ensemble is recognized by its behaviour: %s", (_, queuedUs, parameters: Parameters, recognized) => {
  const { violated } = checkScrapes([{ text: pageOf(queuedUs) }], { parameters });
  expect(violated.flatMap(({ id, violations }) => (id === "N06" ? violations.length : []))).toEqual(
    recognized ? [1] : [],
  );
});
