/** Checks for random numbers that every page is strict text and shows the numbers of the snapshot. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { Registry } from "prom-client";
import { pages } from "../../src/metrics/page.ts";
import { Layout } from "../../src/metrics/rows/flat.ts";
import { counter, gauge, type Refresh, register } from "../../src/metrics/rows/table.ts";
import { python } from "../../src/metrics/rows/text.ts";
import { times } from "../size.ts";
import { type ParsedFamily, parseExposition } from "./parse.ts";
import { anySnapshot, emptyEngine, emptySnapshot, identity, shapeOf } from "./snapshots.ts";

const value = (families: readonly ParsedFamily[], name: string, wanted: Readonly<Record<string, string>>) =>
  families
    .flatMap(({ samples }) => samples)
    .find((sample) => {
      const labels = Object.fromEntries(sample.labels);
      return sample.name === name && Object.entries(wanted).every(([label, text]) => labels[label] === text);
    })?.value;

test("a snapshot is unchanged after the conversion for the worker and fills its whole array", () =>
  fc.assert(
    fc.property(anySnapshot, fc.nat(5), (snapshot, from) => {
      const layout = new Layout(shapeOf(snapshot));
      const numbers = new Float64Array(from + layout.length + 1).fill(-1);
      layout.write(snapshot, numbers, from);
      expect(layout.read(numbers, from)).toEqual(snapshot);
      expect([...numbers.subarray(0, from), ...numbers.subarray(from + layout.length)]).toEqual(
        Array(from + 1).fill(-1),
      );
      expect(numbers.subarray(from, from + layout.length).includes(-1)).toBe(false);
    }),
  ));

test("random snapshots give valid pages: unique series, cumulative buckets, +Inf equal to the count", () =>
  fc.assert(
    fc.asyncProperty(anySnapshot, fc.nat(5), fc.string(), async (snapshot, engineFirst, modelName) => {
      const render = pages({ ...identity, engineFirst, modelName });
      const [role, vllm, understudy] = await Promise.all([
        render("role", () => snapshot),
        render("vllm", () => snapshot),
        render("understudy", () => snapshot),
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
        expect(of("request_success_total", "abort")).toBe(engine.abortedByEngine);
        expect(of("time_to_first_token_seconds_count")).toBe(engine.histograms.timeToFirstToken.count);
        expect(value(families, "understudy_steps_total", labels)).toBe(engine.steps);
      });
      for (const [outcome, count] of Object.entries(snapshot.front.outcomes)) {
        expect(value(families, "understudy_requests_total", { outcome })).toBe(count);
      }
    }),
    { numRuns: times(30) },
  ));

test("an idle engine shows every series at 0", async () => {
  const families = parseExposition(await pages(identity)("role", () => emptySnapshot()));
  const ours = families.filter(({ name }) => name.startsWith("understudy_"));
  expect(ours.map(({ name, type, samples }) => [name, type, samples.length])).toEqual([
    ["understudy_requests_total", "counter", 5],
    ["understudy_requests_open", "gauge", 1],
    ["understudy_streams_open", "gauge", 1],
    ["understudy_held_bytes", "gauge", 1],
    ["understudy_faults_total", "counter", 0],
    ["understudy_stream_writes_info", "gauge", 0],
    ["understudy_worker_restarts_total", "counter", 1],
    ["understudy_log_lines_dropped_total", "counter", 1],
    ["understudy_kv_events_dropped_total", "counter", 3],
    ["understudy_steps_total", "counter", 1],
    ["understudy_step_start_lateness_seconds", "histogram", 19],
    ["understudy_step_end_lateness_seconds", "histogram", 19],
    ["understudy_step_write_seconds", "histogram", 19],
    ["understudy_step_host_seconds", "histogram", 19],
    ["understudy_event_loop_delay_seconds", "histogram", 19],
    ["understudy_clock_rebased_seconds_total", "counter", 1],
    ["understudy_core_memory_bytes", "gauge", 1],
    ["understudy_truth_dropped_total", "counter", 3],
  ]);
  const moved = families.filter(({ samples }) => samples.some(({ value }) => value !== 0)).map(({ name }) => name);
  expect(moved.filter((name) => !name.endsWith("_created"))).toEqual([
    "vllm:engine_sleep_state",
    "vllm:cache_config_info",
  ]);
});

test("two engines have a series each, in order", async () => {
  const engines = [
    { ...emptyEngine(), running: 1 },
    { ...emptyEngine(), running: 2 },
  ];
  const page = await pages({ ...identity, engineFirst: 4 })("vllm", () => emptySnapshot(engines));
  expect(page).toContain(
    'vllm:num_requests_running{engine="4",model_name="m"} 1.0\nvllm:num_requests_running{engine="5",model_name="m"} 2.0\n',
  );
});

test("--disable-log-stats leaves vLLM only its HTTP families, and Understudy all", async () => {
  const render = pages({ ...identity, disableLogStats: true });
  const [role, vllm, ours] = await Promise.all(
    (["role", "vllm", "understudy"] as const).map((view) => render(view, () => emptySnapshot())),
  );
  expect(parseExposition(vllm!).every(({ name }) => name.startsWith("http_"))).toBe(true);
  expect(role).toBe(vllm! + ours!);
});

test("a row reads the copy of its refresh class, and a repeated name is refused", async () => {
  const registry = new Registry();
  const running = (running: number) => emptySnapshot([{ ...emptyEngine(), running }]);
  const copies = { now: running(1), step: running(2), every: running(3) };
  const held = (refresh: Refresh) => copies[typeof refresh === "string" ? refresh : "every"];
  const still = { still: "a test" };
  const rows = (["now", "step", { everyMs: 100 }] as const).map((refresh, index) =>
    gauge(refresh, `g${index}`, "help", ({ engines }) => [[{}, engines[0]!.running]], still),
  );
  register(rows, registry, held, identity, python);
  const values = (await registry.getMetricsAsJSON()).map(({ values }) => values[0]!.value);
  expect(values).toEqual([1, 2, 3]);
  const twice = counter("now", "g0", "help", () => [], still);
  expect(() => register([twice], registry, held, identity, python)).toThrow("already been registered");
});

test("losses of the loop and of the truth log are shown", async () => {
  const snapshot = { ...emptySnapshot(), truth: { run: 1, step: 2, request: 3 } };
  const loop = { ...snapshot.loop, clockRebasedSeconds: 1.5 };
  const families = parseExposition(await pages(identity)("understudy", () => ({ ...snapshot, loop })));
  expect(value(families, "understudy_clock_rebased_seconds_total", {})).toBe(1.5);
  expect(value(families, "understudy_truth_dropped_total", { kind: "step" })).toBe(2);
});

const PROMETHEUS_NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;

test("OpenMetrics has the same numbers, its own counter names, _created in the family and an end mark, and does not change the text format", () =>
  fc.assert(
    fc.asyncProperty(anySnapshot, async (snapshot) => {
      const render = pages(identity);
      const text = await render("role", () => snapshot);
      const open = await render("role", () => snapshot, "openmetrics");
      expect(await render("role", () => snapshot)).toBe(text);
      const lines = open.split("\n");
      expect(lines.slice(-2)).toEqual(["# EOF", ""]);
      expect(lines.slice(0, -1)).not.toContain("");
      let family = { name: "", type: "" };
      const seen = new Set<string>();
      const children: string[] = [];
      for (const line of lines.slice(0, -2)) {
        const [, kind, name, rest] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
        if (kind === "HELP") {
          expect(seen.has(name!)).toBe(false);
          seen.add(name!);
          expect(name).toMatch(PROMETHEUS_NAME);
        } else if (kind === "TYPE") family = { name: name!, type: rest! };
        else {
          const suffix = line.slice(0, line.search(/[{ ]/)).slice(family.name.length);
          const allowed = {
            gauge: [""],
            counter: ["_total", "_created"],
            histogram: ["_bucket", "_count", "_sum", "_created"],
            summary: ["_count", "_sum", "_created"],
          };
          expect(line.startsWith(family.name)).toBe(true);
          expect(allowed[family.type as keyof typeof allowed]).toContain(suffix);
          const labels = line.slice(line.search(/[{ ]/), line.lastIndexOf(" "));
          const child = family.name + labels.replace(/(le|quantile)="[^"]*",?/, "").replace(/,?}$|^{}$/, "");
          if (children.at(-1) !== child) children.push(child);
        }
      }
      // Samples with the same labels are consecutive.
      expect(new Set(children).size).toBe(children.length);
      // Compares samples with those of the text; the values must be equal.
      const samples = (page: string) => page.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
      expect(samples(open).sort()).toEqual(samples(text).sort());
    }),
    { numRuns: times(20) },
  ));
