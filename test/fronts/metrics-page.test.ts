/**
 * Compares the page of a running `vllm-rs` with that of `serve --role vllm --metrics-profile vllm-rs` after the same
 * requests, and lets prometheus_client's strict parser read both. The whole run fetches the program and the parser.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { checkScrapes } from "../../src/tools/check/index.ts";
import { type HostedServer, hosted } from "../hosted.ts";
import { leavesOut, sized } from "../size.ts";
import { hasParser, installParser, readByParser } from "./prometheus-client.ts";
import { FrontWithEngine, isHere, MODEL } from "./vllm-rs.ts";

setDefaultTimeout(60_000);

const isWhole = sized("fronts", { sample: false, whole: true }) && !leavesOut("vllm-rs");
if (isWhole && !hasParser()) await installParser();

const TIMING = "--timing=constant:ttft=20ms,itl=5ms";
let server: HostedServer;
beforeAll(async () => {
  const model = [`--tokenizer=${MODEL}`, "--max-model-len=1024", "--served-model-name=golden", "--seed=1"];
  server = await hosted(["--metrics-profile=vllm-rs", TIMING, ...model]);
});
afterAll(() => server.stop(0));

const BODIES: readonly (readonly [path: string, body: object | string])[] = [
  ["/v1/completions", { model: "golden", prompt: "hello there", max_tokens: 12, ignore_eos: true }],
  ["/v1/completions", { model: "golden", prompt: "hello there", max_tokens: 3, ignore_eos: true, stream: true }],
  ["/v1/completions", { model: "other", prompt: "hello" }],
  ["/nowhere", {}],
];

async function pageAfterRequests(url: string): Promise<string> {
  for (const [path, body] of BODIES) {
    const headers = { "content-type": "application/json" };
    await (await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) })).text();
  }
  await fetch(`${url}/v1/models`);
  return await (await fetch(`${url}/metrics`)).text();
}

/** Lines of vLLM's families and of HTTP, sorted. Values that depend on times are left out, such as the tokens of a step. */
function withoutTimes(page: string): readonly string[] {
  const vllm = page.split(/^(?=# HELP understudy_)/m)[0]!.split("\n");
  const isTimed = /(_seconds_(sum|bucket)|_latency_seconds_bucket|iteration_tokens_total_\w+)[ {]/;
  const lines = vllm.filter((line) => line !== "" && line !== "# EOF");
  return lines.map((line) => (isTimed.test(line) ? line.replace(/ \S+$/, "") : line)).sort();
}

test("the page keeps all laws of understudy check", async () => {
  await pageAfterRequests(server.url);
  const answer = await fetch(`${server.url}/metrics`);
  const contentType = answer.headers.get("content-type");
  expect(contentType).toBe("application/openmetrics-text; version=1.0.0; charset=utf-8");
  const report = checkScrapes([{ text: await answer.text(), contentType, rest: true }]);
  expect(report.violated.map(({ id }) => id)).toEqual([]);
  expect(report.versions.map(({ id }) => id)).toContain("vllm-rs");
});

describe.skipIf(!hasParser())("prometheus_client", () => {
  test("reads our page, and sees 65 families of vLLM", async () => {
    const families = await readByParser(await (await fetch(`${server.url}/metrics`)).text());
    expect(families.filter(([name]) => name.startsWith("vllm:"))).toHaveLength(65);
    const typeOf = (wanted: string) => families.find(([name]) => name === wanted)![1];
    expect([typeOf("vllm:prompt_tokens"), typeOf("vllm:iteration_tokens_total")]).toEqual(["counter", "histogram"]);
  });
});

describe.skipIf(!isHere())("a running vllm-rs", () => {
  let front: FrontWithEngine;
  beforeAll(async () => {
    front = await FrontWithEngine.start(TIMING);
  });
  afterAll(() => front.stop());

  test("has the same families, series and counts", async () => {
    const fresh = await hosted([
      ...["--metrics-profile=vllm-rs", TIMING, `--tokenizer=${MODEL}`, "--max-model-len=1024"],
      ...["--served-model-name=golden", "--seed=1"],
    ]);
    const [theirs, ours] = await Promise.all([front.url, fresh.url].map(pageAfterRequests));
    await fresh.stop(0);
    expect(withoutTimes(ours!)).toEqual([...withoutTimes(theirs!)]);
  });
});
