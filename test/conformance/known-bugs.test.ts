/**
 * Checks over HTTP that Understudy does not have known bugs of other stand-ins and engines. `test/engine/known-bugs.sim.test.ts`
 * has the bugs that do not need HTTP.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { type HostedServer, hosted } from "../hosted.ts";
import { type ParsedFamily, parseExposition } from "../metrics/parse.ts";
import { eventually } from "../server.ts";

setDefaultTimeout(30_000);

/** A model name with characters that labels must escape. */
const ODD = 'a "quoted" \\ name, {le="1"} 17';
let server: HostedServer;
beforeAll(async () => {
  const pool = ["--max-num-seqs", "4", "--num-gpu-blocks-override", "400", "--max-model-len", "4096"];
  server = await hosted(["--served-model-name", ODD, "--timing", "constant:ttft=5ms,itl=5ms", ...pool]);
});
afterAll(() => server.stop());

const ask = (fields: object, signal?: AbortSignal) =>
  fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: ODD, prompt: "Hello", ignore_eos: true, stream: true, ...fields }),
    ...(signal ? { signal } : {}),
  });
const page = async (): Promise<ParsedFamily[]> => parseExposition(await (await fetch(`${server.url}/metrics`)).text());
const family = (families: readonly ParsedFamily[], name: string) => families.find((family) => family.name === name)!;
const gauges = ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"];
const loadOf = (families: readonly ParsedFamily[]) => gauges.map((name) => family(families, name).samples[0]!.value);

test("production-stack's fake server: every chunk is on the wire once, the usage chunk last, also with other streams at the same time", async () => {
  const counts = [1, 2, 40, 80, 81, 120];
  const streams = counts.map(async (max_tokens, seed) => {
    const fields = { max_tokens, seed, stream_options: { include_usage: true }, return_token_ids: true };
    const text = await (await ask(fields)).text();
    const events = text.split("\n\n").slice(0, -1);
    expect(events.at(-1)).toBe("data: [DONE]");
    const chunks = events.slice(0, -1).map((event) => JSON.parse(event.slice("data: ".length)));
    const usage = chunks.at(-1);
    expect(usage).toMatchObject({ choices: [], usage: { completion_tokens: max_tokens } });
    const ids = chunks.slice(0, -1).flatMap(({ choices }) => choices[0].token_ids);
    // The answer in one piece has the same tokens.
    const answer = await ask({ ...fields, stream: false, stream_options: null });
    const whole = (await answer.json()) as { choices: { text: string; token_ids: number[] }[] };
    expect(ids).toEqual(whole.choices[0]!.token_ids);
    expect(
      chunks
        .slice(0, -1)
        .map(({ choices }) => choices[0].text)
        .join(""),
    ).toBe(whole.choices[0]!.text);
    expect(chunks.filter(({ choices }) => choices[0]?.finish_reason)).toHaveLength(1);
  });
  await Promise.all(streams);
});

test("production-stack's fake server, vllm#29928, vllm#22545, sglang#4244: when all clients have left the gauges are zero at a scrape, without another request", async () => {
  const controllers = Array.from({ length: 12 }, () => new AbortController());
  const readers = await Promise.all(
    controllers.slice(0, 4).map(async ({ signal }) => (await ask({ max_tokens: 4000 }, signal)).body!.getReader()),
  );
  await Promise.all(readers.map((reader) => reader.read()));
  // These requests wait: their streams have not started.
  const waiting = controllers.slice(4).map(({ signal }) => ask({ max_tokens: 4000 }, signal).catch(() => null));
  await eventually(async () => loadOf(await page())[1] === 8);
  expect(loadOf(await page())[0]).toBe(4);
  expect(loadOf(await page())[2]).toBeGreaterThan(0);
  for (const controller of controllers) controller.abort();
  await Promise.all(waiting);
  // Using the readers here keeps the four streams open until now, because an unreferenced stream is cancelled when it is
  // collected.
  await Promise.allSettled(readers.map((reader) => reader.closed));
  await eventually(async () => loadOf(await page()).every((value) => value === 0));
  const steps = family(await page(), "understudy_steps_total").samples[0]!.value;
  await Bun.sleep(30);
  expect(family(await page(), "understudy_steps_total").samples[0]!.value).toBe(steps);
});

test("gpustack#6218, vllm#56919: a strict parser reads the page for any model name", async () => {
  await (await ask({ max_tokens: 3 })).text();
  const families = await page();
  const named = families
    .flatMap(({ samples }) => samples)
    .filter(({ labels }) => labels.some(([key]) => key === "model_name"));
  expect(named.length).toBeGreaterThan(200);
  for (const { labels } of named) expect(new Map(labels).get("model_name")).toBe(ODD);
});

test("aiperf's mock: TTFT and E2E have the real server's separate bounds, and no label is missing", async () => {
  const recorded = parseExposition(readFileSync(`${import.meta.dir}/recorded/vllm-0.33-server-exposition.txt`, "utf8"));
  const families = await page();
  const bounds = (of: readonly ParsedFamily[], name: string) =>
    family(of, name).samples.flatMap(({ labels }) => labels.filter(([key]) => key === "le").map(([, le]) => le));
  const [ttft, e2e] = ["vllm:time_to_first_token_seconds", "vllm:e2e_request_latency_seconds"] as const;
  for (const name of [ttft, e2e]) expect(bounds(families, name!)).toEqual(bounds(recorded, name!));
  expect(bounds(families, ttft!)).not.toEqual(bounds(families, e2e!));
  const keys = ({ samples }: ParsedFamily) => [
    ...new Set(samples.map(({ labels }) => `${labels.map(([key]) => key)}`)),
  ];
  const both = families.filter(({ name }) => family(recorded, name)?.samples.length);
  expect(both.length).toBeGreaterThan(40);
  for (const ours of both) expect([ours.name, keys(ours)]).toEqual([ours.name, keys(family(recorded, ours.name))]);
});
