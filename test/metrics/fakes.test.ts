/** Checks that `--fake-metrics` changes the families that it names and no other, and refuses invalid input. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";
import { type FakeMetrics, parseFakeMetrics, waveAt } from "../../src/metrics/config/fake-metrics.ts";
import { pages } from "../../src/metrics/page.ts";
import { times } from "../size.ts";
import { parseExposition } from "./parse.ts";
import { anySnapshot, emptySnapshot, identity } from "./snapshots.ts";

function read(fakes: object): FakeMetrics {
  const parsed = parseFakeMetrics(JSON.stringify(fakes));
  if ("error" in parsed) throw new Error(parsed.error);
  return parsed;
}

const NAMED = {
  "running-requests": 16,
  "waiting-requests": "squarewave:2.6:2.6:5s",
  "kv-cache-usage": 0.3,
  "ttft-buckets-values": [10, 20, 30, 40],
  "request-prompt-tokens": [1, 20, 30, 24],
  "request-success-total": { stop: 20, length: 4 },
  "prefix-cache-hits": 50,
  "prefix-cache-queries": 100,
  loras: [{ running: "a,b", waiting: "c", timestamp: 1_700_000_000 }, '{"running":"a,b","waiting":"c","timestamp":7}'],
};
const FAMILIES = [
  ...["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"],
  ...["vllm:time_to_first_token_seconds", "vllm:request_prompt_tokens", "vllm:prompt_tokens_total"],
  ...["vllm:request_success_total", "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"],
  "vllm:lora_requests_info",
];

const of = (page: string, name: string) =>
  page.split("\n").filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name}_`));

test("named families show fake values, all others true ones, and pages stay valid", () =>
  fc.assert(
    fc.asyncProperty(anySnapshot, async (snapshot) => {
      const with_ = { ...identity, maxLoras: 4 };
      const so = await pages(with_)("all", () => snapshot);
      const page = await pages({ ...with_, fakes: read(NAMED) })("all", () => snapshot);
      const families = parseExposition(page);
      const values = (name: string, want: Readonly<Record<string, string>> = {}) =>
        families
          .flatMap(({ samples }) => samples)
          .filter((sample) => {
            const labels = Object.fromEntries(sample.labels);
            return sample.name === name && Object.entries(want).every(([label, text]) => labels[label] === text);
          })
          .map((sample) => sample.value);
      const each = (value: number) => snapshot.engines.map(() => value);
      expect(values("vllm:num_requests_running")).toEqual(each(16));
      expect(values("vllm:num_requests_waiting")).toEqual(each(3));
      expect(values("vllm:kv_cache_usage_perc")).toEqual(each(0.3));
      expect(values("vllm:time_to_first_token_seconds_bucket", { le: "0.001" })).toEqual(each(10));
      expect(values("vllm:time_to_first_token_seconds_bucket", { le: "0.01" })).toEqual(each(60));
      expect(values("vllm:time_to_first_token_seconds_count")).toEqual(each(100));
      for (const sum of values("vllm:time_to_first_token_seconds_sum"))
        expect(sum).toBeCloseTo(10 * 0.001 + 20 * 0.005 + 30 * 0.01 + 40 * 0.02);
      expect(values("vllm:request_prompt_tokens_bucket", { le: "1.0" })).toEqual(each(1));
      expect(values("vllm:request_prompt_tokens_bucket", { le: "+Inf" })).toEqual(each(4));
      expect(values("vllm:request_prompt_tokens_sum")).toEqual(each(75));
      expect(values("vllm:prompt_tokens_total")).toEqual(each(75));
      expect(values("vllm:request_success_total", { finished_reason: "stop" })).toEqual(each(20));
      expect(values("vllm:request_success_total", { finished_reason: "abort" })).toEqual(each(0));
      expect(values("vllm:prefix_cache_hits_total")).toEqual(each(50));
      expect(values("vllm:lora_requests_info")).toEqual([7]);
      for (const name of families.map((family) => family.name).filter((name) => !FAMILIES.includes(name)))
        expect(of(page, name)).toEqual(of(so, name));
    }),
    { numRuns: times(20) },
  ));

test("waveforms follow the given clock", async () => {
  const fakes = read({ "waiting-requests": "squarewave:1:5:10s" });
  const render = pages({ ...identity, fakes });
  const snapshot = emptySnapshot();
  const at = async (us: number) => {
    const shown = parseExposition(await render("vllm", () => snapshot, "text", us));
    return shown.find(({ name }) => name === "vllm:num_requests_waiting")!.samples.map(({ value }) => value);
  };
  const [first, later] = [await at(1e6), await at(6e6)];
  expect([...first, ...later].sort()).toEqual([1, 5]);
  expect(await at(1e6)).toEqual(first);
  expect(await at(11e6)).toEqual(first);
});

const number = fc.double({ min: 0, max: 1000, noNaN: true });
const shape = fc.constantFrom("oscillate", "ramp", "rampreset", "squarewave");

test("a waveform stays in its range, begins at its start, and ends or repeats", () => {
  fc.assert(
    fc.property(shape, number, number, fc.integer({ min: 1, max: 1000 }), number, (name, start, end, ms, seconds) => {
      const { gauges } = read({ "running-requests": `${name}:${start}:${end}:${ms}ms` });
      const wave = gauges["vllm:num_requests_running"]!;
      const [least, most] = [Math.min(start, end), Math.max(start, end)];
      const slack = 1e-9 * (1 + most);
      expect(waveAt(wave, seconds)).toBeGreaterThanOrEqual(least - slack);
      expect(waveAt(wave, seconds)).toBeLessThanOrEqual(most + slack);
      expect(waveAt(wave, 0)).toBeCloseTo(start, 6);
      if (name === "ramp") expect(waveAt(wave, ms / 1000 + seconds)).toBeCloseTo(end, 6);
    }),
  );
  const at = (text: string, seconds: number) =>
    waveAt(read({ "waiting-requests": text }).gauges["vllm:num_requests_waiting"]!, seconds);
  expect([0, 2.5, 5, 7.5, 10].map((s) => at("oscillate:0:10:10s", s)).map(Math.round)).toEqual([0, 5, 10, 5, 0]);
  expect([0, 5, 10, 15].map((s) => at("ramp:10:0:10s", s))).toEqual([10, 5, 0, 0]);
  expect([0, 5, 15, 20].map((s) => at("rampreset:0:10:10s", s))).toEqual([0, 5, 5, 0]);
  expect([0, 4.9, 5, 9.9, 10].map((s) => at("squarewave:1:9:10s", s))).toEqual([1, 1, 9, 9, 1]);
});

test.each([
  ["{", "takes a JSON object"],
  ["[]", "takes a JSON object"],
  ['{"running": 3}', "running: unknown key, must be one of running-requests, "],
  ['{"running-requests": -1}', "running-requests: takes a number from 0, or SHAPE:START:END:PERIOD"],
  ['{"running-requests": "jump:0:1:5s"}', 'not "jump:0:1:5s"'],
  ['{"running-requests": "ramp:0:1:0s"}', "running-requests: takes a duration above 0"],
  ['{"running-requests": "ramp:0:1:5"}', "running-requests: takes a duration above 0"],
  ['{"kv-cache-usage": 1.1}', "kv-cache-usage: takes a number from 0 to 1"],
  ['{"kv-cache-usage": "ramp:0:2:5s"}', "kv-cache-usage: takes a number from 0 to 1"],
  ['{"ttft-buckets-values": [1.5]}', "ttft-buckets-values: takes whole numbers from 0, not 1.5"],
  ['{"ttft-buckets-values": 5}', "ttft-buckets-values: takes a list"],
  [
    '{"request-success-total": {"done": 1}}',
    'request-success-total: unknown reason "done", must be one of stop, length',
  ],
  ['{"request-success-total": {"stop": -1}}', "request-success-total.stop: takes whole numbers from 0"],
  ['{"prefix-cache-hits": 1}', "prefix-cache-hits and prefix-cache-queries must be given together"],
  ['{"prefix-cache-hits": 2, "prefix-cache-queries": 1}', "prefix-cache-hits: at most prefix-cache-queries (1), not 2"],
  ['{"loras": [5]}', "loras: takes a list of"],
  ['{"loras": ["x"]}', "loras: takes a list of"],
  [`{"request-prompt-tokens": [${"1,".repeat(100_000)}1]}`, "100001 numbers in all lists"],
])("%.60s is refused", (text, why) => {
  const parsed = parseFakeMetrics(text);
  expect("error" in parsed ? parsed.error : parsed).toContain(why);
  const resolved = resolveServeConfig(["--fake-metrics", text, "--enable-lora"], {}, () => "");
  expect("error" in resolved ? resolved.error : "taken").toStartWith("--fake-metrics: ");
});

test("adapters only show if LoRA is on", () => {
  const resolved = resolveServeConfig(["--fake-metrics", '{"loras": []}'], {}, () => "");
  expect(resolved).toEqual({ error: "--fake-metrics: loras: needs --enable-lora" });
});
