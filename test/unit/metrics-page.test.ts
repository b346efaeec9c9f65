/** Whatever the numbers: every page is strict text, and what stands in it is what the snapshot held. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { Registry } from "prom-client";
import { flatten, unflatten } from "../../src/metrics/flat.ts";
import { pages } from "../../src/metrics/page.ts";
import { counter, gauge, type Refresh, register } from "../../src/metrics/table.ts";
import { type ParsedFamily, parseExposition } from "./metrics-parse.ts";
import { anySnapshot, emptyEngine, emptySnapshot, identity } from "./metrics-snapshots.ts";

const value = (families: readonly ParsedFamily[], name: string, wanted: Readonly<Record<string, string>>) =>
  families
    .flatMap(({ samples }) => samples)
    .find((sample) => {
      const labels = Object.fromEntries(sample.labels);
      return sample.name === name && Object.entries(wanted).every(([label, text]) => labels[label] === text);
    })?.value;

test("a snapshot survives the way to the worker", () =>
  fc.assert(
    fc.property(anySnapshot, (snapshot) => {
      expect(unflatten(flatten(snapshot))).toEqual(snapshot);
    }),
  ));

test("any snapshot gives strict pages: no series twice, buckets cumulative, +Inf equal to the count", () =>
  fc.assert(
    fc.asyncProperty(anySnapshot, fc.nat(5), fc.string(), async (snapshot, engineFirst, modelName) => {
      const render = pages({ ...identity, engineFirst, modelName });
      const [role, vllm, understudy] = await Promise.all([
        render("role", snapshot),
        render("vllm", snapshot),
        render("understudy", snapshot),
      ]);
      expect(role).toBe(vllm + understudy);
      const families = parseExposition(role);
      snapshot.engines.forEach((engine, index) => {
        const labels = { engine: `${engineFirst + index}` };
        const of = (name: string, finished_reason?: string) =>
          value(families, `vllm:${name}`, finished_reason ? { ...labels, finished_reason } : labels);
        expect(of("num_requests_running")).toBe(engine.running);
        expect(of("num_requests_waiting")).toBe(engine.waiting + engine.deferred);
        expect(of("request_success_total", "length")).toBe(engine.finished[1]);
        expect(of("request_success_total", "abort")).toBe(0);
        expect(of("time_to_first_token_seconds_count")).toBe(engine.histograms.timeToFirstToken.count);
        expect(value(families, "understudy_steps_total", labels)).toBe(engine.steps);
      });
      for (const [outcome, count] of Object.entries(snapshot.front.outcomes)) {
        expect(value(families, "understudy_requests_total", { outcome })).toBe(count);
      }
    }),
    { numRuns: 30 },
  ));

test("an engine that did nothing shows every series at 0", async () => {
  const families = parseExposition(await pages(identity)("role", emptySnapshot()));
  const own = families.filter(({ name }) => name.startsWith("understudy_"));
  expect(own.map(({ name, type, samples }) => [name, type, samples.length])).toEqual([
    ["understudy_requests_total", "counter", 5],
    ["understudy_streams_open", "gauge", 1],
    ["understudy_steps_total", "counter", 1],
    ["understudy_step_start_lateness_seconds", "histogram", 19],
    ["understudy_step_write_seconds", "histogram", 19],
    ["understudy_clock_rebased_seconds_total", "counter", 1],
    ["understudy_truth_dropped_total", "counter", 3],
  ]);
  const moved = families.filter(({ samples }) => samples.some(({ value }) => value !== 0)).map(({ name }) => name);
  expect(moved.filter((name) => !name.endsWith("_created"))).toEqual([
    "vllm:engine_sleep_state",
    "vllm:cache_config_info",
  ]);
});

test("two engines: a series each, in the order of the engines", async () => {
  const engines = [
    { ...emptyEngine(), running: 1 },
    { ...emptyEngine(), running: 2 },
  ];
  const page = await pages({ ...identity, engineFirst: 4 })("vllm", emptySnapshot(engines));
  expect(page).toContain(
    'vllm:num_requests_running{engine="4",model_name="m"} 1.0\nvllm:num_requests_running{engine="5",model_name="m"} 2.0\n',
  );
});

test("--disable-log-stats leaves vLLM nothing to show, and us everything", async () => {
  const render = pages({ ...identity, disableLogStats: true });
  expect(await render("vllm", emptySnapshot())).toBe("");
  expect(await render("role", emptySnapshot())).toBe(await render("understudy", emptySnapshot()));
});

test("a row reads the copy of its refresh class; a name twice is refused", async () => {
  const registry = new Registry();
  const running = (running: number) => emptySnapshot([{ ...emptyEngine(), running }]);
  const copies = { now: running(1), step: running(2), every: running(3) };
  const held = (refresh: Refresh) => copies[typeof refresh === "string" ? refresh : "every"];
  const rows = (["now", "step", { everyMs: 100 }] as const).map((refresh, index) =>
    gauge(refresh, `g${index}`, "help", ({ engines }) => [[{}, engines[0]!.running]]),
  );
  register(rows, registry, held, identity);
  const values = (await registry.getMetricsAsJSON()).map(({ values }) => values[0]!.value);
  expect(values).toEqual([1, 2, 3]);
  const twice = counter("now", "g0", "help", () => []);
  expect(() => register([twice], registry, held, identity)).toThrow("already been registered");
});
