/**
 * Compares the page of a Triton server (`--role triton`) with `/metrics/triton` and `/metrics/trtllm` of a vLLM server after
 * the same generations. The Triton server must have every family and label, and equal numbers where they mean the same.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { hosted } from "../../hosted.ts";
import { expressions, queries } from "../../prometheus/asked.ts";
import { eventually } from "../../server.ts";
import { hostTriton } from "../../triton/child.ts";
import { type ParsedFamily, type ParsedSample, parseExposition } from "../parse.ts";

const SETTINGS = ["histogram_latencies=true", "summary_latencies=true"];
const ENGINE = [
  "--max-model-len",
  "512",
  "--num-gpu-blocks-override",
  "64",
  "--max-num-seqs",
  "4",
  "--timing",
  "constant:ttft=4ms,itl=2ms",
];
const SHIPPED = new URL("../../../src/servers/triton/shipped", import.meta.url).pathname;
const MODELS = ["ensemble", "postprocessing", "preprocessing", "tensorrt_llm"];
const GENERATIONS = [
  { tokens: 5, stream: true },
  { tokens: 12, stream: true },
  { tokens: 7, stream: false },
];

const stops: (() => Promise<unknown>)[] = [];
let pages: { readonly imitation: ParsedFamily[]; readonly role: ParsedFamily[] };
const textOf = async (url: string) => (await fetch(url)).text();
const post = (url: string, body: object) =>
  fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }).then(
    async (answer) => {
      const text = await answer.text();
      expect([answer.status, text]).toEqual([200, text]);
    },
  );
/** Returns the page once it has counted every generation and the state of the last step is taken over. */
async function settled(read: () => Promise<string>): Promise<ParsedFamily[]> {
  let page: ParsedFamily[] = [];
  await eventually(async () => {
    page = parseExposition(await read());
    return (
      numberOf(page, "nv_inference_request_success", { model: "ensemble" }) === GENERATIONS.length &&
      numberOf(page, "nv_trt_llm_request_metrics", { request_type: "active" }) === 0 &&
      numberOf(page, "nv_trt_llm_general_metrics", { general_type: "iteration_counter" })! > 0 &&
      numberOf(page, "nv_gpu_memory_total_bytes", {})! > 0
    );
  });
  return page;
}

beforeAll(async () => {
  const interval = ["--metrics-interval-ms", "100"];
  const imitation = await hosted([...ENGINE, ...interval, "--metrics-config", ...SETTINGS]);
  stops.push(() => imitation.stop());
  const role = await hostTriton([
    ...["--model-repository", SHIPPED, "--model-control-mode", "explicit", "--load-model", "ensemble"],
    ...[...ENGINE, ...interval, ...SETTINGS.flatMap((setting) => ["--metrics-config", setting])],
  ]);
  stops.push(() => role.stop());
  for (const { tokens, stream } of GENERATIONS) {
    await post(`${imitation.url}/v1/completions`, {
      prompt: "Hello there",
      max_tokens: tokens,
      stream,
      ignore_eos: true,
    });
    const path = stream ? "generate_stream" : "generate";
    await post(`${role.url}/v2/models/ensemble/${path}`, { text_input: "Hello there", max_tokens: tokens, stream });
  }
  pages = {
    imitation: await settled(async () =>
      (await Promise.all(["triton", "trtllm"].map((name) => textOf(`${imitation.url}/metrics/${name}`)))).join(""),
    ),
    role: await settled(() => textOf(`${role.metrics}/metrics`)),
  };
}, 30_000);
afterAll(() => Promise.all(stops.map((stop) => stop())));

const samplesOf = (page: readonly ParsedFamily[]): ParsedSample[] => page.flatMap(({ samples }) => samples);
function numberOf(page: readonly ParsedFamily[], name: string, labels: Readonly<Record<string, string>>) {
  const isWanted = (sample: ParsedSample) => {
    const own = Object.fromEntries(sample.labels);
    return sample.name === name && Object.entries(labels).every(([label, value]) => own[label] === value);
  };
  return samplesOf(page).find(isWanted)?.value;
}

test("the Triton server has every family of the vLLM server, with its type and help", () => {
  const headOf = ({ name, type, help }: ParsedFamily) => `${name} ${type} ${help}`;
  const ofRole = pages.role.map(headOf);
  expect(pages.imitation.map(headOf).filter((head) => !ofRole.includes(head))).toEqual([]);
  expect(pages.imitation.length).toBeGreaterThan(30);
});

test("the Triton server has every series of the vLLM server", () => {
  const seriesOf = ({ name, labels }: ParsedSample) => JSON.stringify([name, ...labels]);
  const ofRole = new Set(samplesOf(pages.role).map(seriesOf));
  expect(
    samplesOf(pages.imitation)
      .map(seriesOf)
      .filter((series) => !ofRole.has(series)),
  ).toEqual([]);
});

const COUNTED = ["request_success", "request_failure", "count", "exec_count", "pending_request_count"].map(
  (name) => `nv_inference_${name}`,
);
const EQUAL =
  /^nv_(gpu_memory_total|gpu_power_limit|pinned|cpu_memory_total|llm_\w+_len|trt_llm_kv_cache|trt_llm_request|inference_\w+_(summary_us|histogram_ms)_count)/;

test("numbers that mean the same are equal", () => {
  const numbersOf = (page: readonly ParsedFamily[]) =>
    samplesOf(page)
      .filter(({ name }) => COUNTED.includes(name) || EQUAL.test(name))
      .filter(({ labels }) => labels.every(([label, value]) => label !== "model" || MODELS.includes(value)))
      .map(({ name, labels, value }) => `${name} ${JSON.stringify(labels)} ${value}`)
      .sort();
  expect(numbersOf(pages.role)).toEqual(numbersOf(pages.imitation));
  expect(numbersOf(pages.imitation).length).toBeGreaterThan(60);
});

/** Returns the name and the equality matchers of every selector of Triton's families in a query. */
function selectorsIn(expr: string): [name: string, labels: Record<string, string>][] {
  return [...expr.matchAll(/\b(nv_\w+)(?:\{([^}]*)\})?/g)].map(([, name, matchers = ""]) => [
    name!,
    Object.fromEntries([...matchers.matchAll(/(\w+)="([^"$]*)"/g)].map(([, label, value]) => [label!, value!])),
  ]);
}

test("every series that a query of Triton's families must find is on both pages", () => {
  const filled = [...queries, ...expressions].filter(({ expr, must }) => must === "filled" && /\bnv_/.test(expr));
  const selectors = filled.flatMap(({ expr }) => selectorsIn(expr)).filter(([name]) => !name.startsWith("nv_cache_"));
  expect(selectors.length).toBeGreaterThan(150);
  for (const page of [pages.imitation, pages.role])
    expect(selectors.filter(([name, labels]) => numberOf(page, name, labels) === undefined)).toEqual([]);
});
