/**
 * Compares the page of vLLM 0.33's front end in Rust with recordings of `vllm-rs`, line by line. They are an idle page, a
 * page after eight requests, and the lines of a long run without buckets. The values of a recording are put into a snapshot
 * and printed. Series of a family have no fixed order there, because they come from a hash table.
 */
import { describe, expect, test } from "bun:test";
import type { EngineSnapshot, HistogramSnapshot, Snapshot } from "../../../src/engine/interface/types.ts";
import { RUST } from "../../../src/metrics/config/metrics-profiles.ts";
import type { View } from "../../../src/metrics/dialects.ts";
import { pages } from "../../../src/metrics/page.ts";
import { HTTP_WIDTH, type HttpRoute, HttpWord, STATUS_CLASSES } from "../../../src/metrics/rows/http-counts.ts";
import type { Identity } from "../../../src/metrics/rows/identity.ts";
import { emptyEngine, emptySnapshot, identity } from "../snapshots.ts";
import { HISTOGRAM_FAMILIES } from "./histogram-families.ts";

const recorded = (name: string) =>
  Bun.file(`${import.meta.dir}/../../conformance/recorded/vllm-rs-0.33-${name}.txt`).text();
const [idle, whole, changedLines] = await Promise.all(["idle", "page", "changed-lines"].map(recorded));
const samplesOf = (text: string) => text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));

const rust: Identity = { ...identity, profile: RUST, modelName: "golden" };
const page = (snapshot: Snapshot, of: Partial<Identity> = {}, view: View = "vllm") =>
  pages({ ...rust, ...of })(view, () => snapshot);

/** Splits a page into its families. The lines of each series keep their order, and the series are sorted. */
function familiesOf(text: string): readonly string[] {
  return text.split(/^(?=# HELP)/m).map((family) => {
    const [help, type, ...lines] = family.split("\n");
    const series = Map.groupBy(lines, (line) => line.replace(/^(\S+?)(_sum|_count|_bucket)?\{(le="[^"]*",?)?/, "$1{"));
    const keyOf = (line: string) => line.replace(/ \S+$/, "").replace(/^[^{]*\{(le="[^"]*",?)?/, "");
    return [help, type, ...[...Map.groupBy([...series.values()].flat(), keyOf)].sort().flatMap(([, of]) => of)].join(
      "\n",
    );
  });
}

/** Reads the values of a recording. A series that it lacks is 0. */
class Recording {
  readonly #values: ReadonlyMap<string, number>;

  constructor(readonly lines: readonly string[]) {
    this.#values = new Map(
      lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ") + 1))]),
    );
  }

  of(name: string, labels = ""): number {
    return this.#values.get(`vllm:${name}{model_name="golden",engine="0"${labels}}`) ?? 0;
  }

  /** Puts all observations into the first bucket if no buckets are recorded. */
  histogram(name: string, bounds: readonly number[], labels: string): HistogramSnapshot {
    const value = (suffix: string, le = "") =>
      this.#values.get(`${name}${suffix}${`{${le}${labels}}`.replace(/,?\}$/, "}").replace("{}", "")}`);
    const float = (bound: number | undefined) =>
      bound === undefined ? "+Inf" : Number.isInteger(bound) ? `${bound}.0` : `${bound}`;
    const count = value("_count") ?? 0;
    let below = 0;
    const buckets = [...bounds, undefined].map((bound) => {
      const before = below;
      below = value("_bucket", `le="${float(bound)}",`) ?? count;
      return below - before;
    });
    return { bounds, buckets, sum: value("_sum") ?? 0, count };
  }

  snapshot(maxModelLen: number, http: readonly HttpRoute[]): Snapshot {
    const engine = emptyEngine(maxModelLen);
    const histograms = Object.fromEntries(
      Object.entries(engine.histograms).map(([key, { bounds }]) => {
        const name = `vllm:${HISTOGRAM_FAMILIES[key as keyof typeof HISTOGRAM_FAMILIES]}`;
        return [key, this.histogram(name, bounds, 'model_name="golden",engine="0"')];
      }),
    ) as EngineSnapshot["histograms"];
    const ended = ["stop", "length", "abort", "error", "repetition"].map((reason) =>
      this.of("request_success_total", `,finished_reason="${reason}"`),
    ) as unknown as EngineSnapshot["finished"];
    const empty = emptySnapshot([
      {
        ...engine,
        running: this.of("num_requests_running"),
        kvUsage: this.of("kv_cache_usage_perc"),
        promptTokens: this.of("prompt_tokens_total"),
        promptTokensCached: this.of("prompt_tokens_cached_total"),
        generationTokens: this.of("generation_tokens_total"),
        preemptionsTold: this.of("num_preemptions_total"),
        prefixQueries: this.of("prefix_cache_queries_total"),
        prefixHits: this.of("prefix_cache_hits_total"),
        finished: ended,
        histograms,
      },
    ]);
    const { bounds } = empty.front.http.duration;
    const duration = this.histogram("http_request_duration_highr_seconds", bounds, "");
    return { ...empty, front: { ...empty.front, http: { routes: http.flatMap((at) => this.#route(at)), duration } } };
  }

  /** Handlers and methods that were counted. */
  get http(): HttpRoute[] {
    const counted = this.lines.map((line) =>
      /^http_requests_total\{method="(.*)",status=".*",handler="(.*)"\}/.exec(line),
    );
    const routes = counted.flatMap((found) => (found ? [{ method: found[1]!, handler: found[2]! }] : []));
    return [...new Map(routes.map((route) => [`${route.method} ${route.handler}`, route])).values()];
  }

  #route({ handler, method }: HttpRoute): readonly number[] {
    const row = Array<number>(HTTP_WIDTH).fill(0);
    for (const [at, status] of STATUS_CLASSES.entries()) {
      const count =
        this.#values.get(`http_requests_total{method="${method}",status="${status}",handler="${handler}"}`) ?? 0;
      row[HttpWord.answers + at] = count;
      row[HttpWord.since + at] = count > 0 ? 1 : 0;
    }
    const labels = `method="${method}",handler="${handler}"`;
    const { buckets, sum } = this.histogram("http_request_duration_seconds", [0.1, 0.5, 1], labels);
    for (const [at, count] of buckets.entries()) row[HttpWord.buckets + at] = count;
    row[HttpWord.seconds] = sum;
    return row;
  }
}

test("an idle page equals the recorded one, and has 65 families of vLLM", async () => {
  const ours = await page(emptySnapshot([emptyEngine(1024)]));
  expect(familiesOf(ours)).toEqual([...familiesOf(idle!)]);
  expect(ours.match(/^# TYPE vllm:/gm)).toHaveLength(65);
  expect(ours.endsWith("\n# EOF\n")).toBe(true);
});

test("a page after requests equals the recorded one, with buckets and HTTP series", async () => {
  const recording = new Recording(samplesOf(whole!));
  const { http } = recording;
  expect(familiesOf(await page(recording.snapshot(1024, http), { http }))).toEqual([...familiesOf(whole!)]);
});

describe("the recorded lines of a long run", async () => {
  const recording = new Recording(samplesOf(changedLines!));
  const { http } = recording;
  const ours = samplesOf(await page(recording.snapshot(1024, http), { http }));
  // The recorded operations took less than a millisecond. Here they take no time.
  const wanted = recording.lines.filter((line) => !line.startsWith("vllm:sleep_mode_operation_duration_seconds_sum"));

  test("are all on our page", () => {
    expect(wanted.filter((line) => !ours.includes(line))).toEqual([]);
  });

  test("are all lines that differ from the idle page", () => {
    const before = new Set(samplesOf(idle!));
    const changed = ours.filter((line) => !before.has(line) && !/_bucket\{|_sum\{operation/.test(line));
    expect(changed.sort()).toEqual([...wanted].sort());
  });
});

test("the series of requests exist once the engine has received one, also if it ended without a token", async () => {
  const has = async (engine: Partial<EngineSnapshot>) =>
    (await page(emptySnapshot([{ ...emptyEngine(), ...engine }]))).includes("vllm:prompt_tokens_total{");
  expect([await has({}), await has({ waiting: 1 }), await has({ deferred: 1 })]).toEqual([false, true, true]);
  expect(await has({ finished: [0, 0, 1, 0, 0] })).toBe(true);
});

test("adapters that run or wait now are sorted, and the series vanishes without any", async () => {
  const adapters = ["b", "a", "c"];
  const engine = (running: readonly number[], waiting: readonly number[]) => ({
    ...emptyEngine(),
    takenUs: 1.5e6,
    adapters: adapters.map((_, at) => ({ running: running[at]!, waiting: waiting[at]!, heard: 1 })),
  });
  const lines = async (engines: readonly EngineSnapshot[]) =>
    samplesOf(await page(emptySnapshot(engines), { adapters, maxLoras: 2, startedS: 1000 })).filter((line) =>
      line.startsWith("vllm:lora_requests_info"),
    );
  expect(await lines([engine([2, 1, 0], [0, 0, 0]), engine([0, 0, 0], [0, 0, 1])])).toEqual([
    'vllm:lora_requests_info{running_lora_adapters="a,b",waiting_lora_adapters="c"} 1001.5',
  ]);
  expect(await lines([engine([0, 0, 0], [0, 0, 0])])).toEqual([]);
});

test("without log statistics, the families of the scheduler have no series, as recorded", async () => {
  const served = { ...emptyEngine(), running: 1, promptTokens: 4 };
  const text = await page(emptySnapshot([served]), { disableLogStats: true });
  const empty = familiesOf(text)
    .filter((family) => samplesOf(family).length === 0)
    .map((family) => family.split(" ")[2]!.replace("vllm:", ""));
  expect(text.match(/^# TYPE/gm)).toHaveLength(68);
  expect(empty).toContain("num_requests_running");
  expect(empty).toContain("request_queue_time_seconds");
  expect(empty).not.toContain("time_to_first_token_seconds");
  expect(empty).not.toContain("iteration_tokens_total");
});

test("our own families follow in the same format, and other pages stay text", async () => {
  const role = await page(emptySnapshot(), {}, "role");
  expect(role).toContain("# TYPE understudy_streams_open gauge\n");
  expect(role.match(/# EOF/g)).toHaveLength(1);
  expect(role.endsWith("# EOF\n")).toBe(true);
  expect(role).not.toMatch(/_created/);
  expect(await page(emptySnapshot(), {}, "triton")).not.toContain("# EOF");
});

test("values of --fake-metrics replace ours, also in series that would not exist yet", async () => {
  const fakes = { gauges: {}, counters: { "vllm:prompt_tokens_total": 7 }, buckets: {}, observed: {} };
  const text = await page(emptySnapshot(), { fakes: { ...fakes, success: null, loras: null, refreshS: 1 } });
  expect(text).toContain('vllm:prompt_tokens_total{model_name="golden",engine="0"} 7\n');
});
