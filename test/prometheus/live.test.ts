/**
 * Checks that a real Prometheus accepts every page of a real server under light load, in both formats, for a minute (24 s in
 * the sample).
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { dashboards } from "../../scripts/dashboard-panels.ts";
import { RUST } from "../../src/metrics/config/metrics-profiles.ts";
import { metricsDialects } from "../../src/metrics/dialects.ts";
import { dialectNames, type MetricsDialectName } from "../../src/metrics/rows/dialect-names.ts";
import { identity } from "../metrics/snapshots.ts";
import { eventually, type Server, serve } from "../server.ts";
import { sized } from "../size.ts";
import { expressions, LIVE_ONLY, promql, queries } from "./asked.ts";
import { checkMetrics, Prometheus } from "./prometheus.ts";

setDefaultTimeout(120_000);

const UNDER_LOAD_MS = sized("prometheus", { sample: 24_000, whole: 60_000 });
const SCRAPE_S = 2;
const FORMATS = ["text", "openmetrics"] as const;
const CLIENTS = 4;

interface Job {
  readonly name: string;
  readonly path: string;
  readonly dialects: readonly MetricsDialectName[];
  readonly format?: (typeof FORMATS)[number];
  /** True for a server with the page of vLLM's front end in Rust. */
  readonly rust?: true;
}
/**
 * Scrape jobs: each dialect in each format, `/metrics` without parameters, the page on Triton's port, and the page of
 * vLLM's front end in Rust, which is always OpenMetrics.
 */
const jobs: readonly Job[] = [
  { name: "tritonserver", path: "/metrics", dialects: ["triton", "trtllm"] },
  { name: "role", path: "/metrics", dialects: ["vllm", "understudy"] },
  { name: "vllm-rs", path: "/metrics/vllm", dialects: ["vllm"], rust: true },
  ...dialectNames.flatMap((name) =>
    FORMATS.map((format) => ({ name: `${name}-${format}`, path: `/metrics/${name}`, dialects: [name], format })),
  ),
];

const folder = mkdtempSync(join(tmpdir(), "understudy-live-"));
let server: Server;
let rust: Server;
let prometheus: Prometheus;
let loaded = true;
let clients: Promise<void>[] = [];

beforeAll(async () => {
  server = await serve([
    ...["--timing", "linear:base=4ms,prefill=0.01ms,decode=0.05ms", "--disable-uvicorn-access-log"],
    ...["--metrics-config", "summary_latencies=true", "--metrics-config", "histogram_latencies=true"],
    ...["--metrics-port", "0"],
  ]);
  const banner = /Triton's metrics on http:\/\/(\S+)\s/;
  await eventually(() => banner.test(server.output()));
  const triton = banner.exec(server.output())![1]!;
  rust = await serve(["--metrics-profile", "vllm-rs", "--disable-uvicorn-access-log"]);
  const [address, ofRust] = [server, rust].map(({ url }) => url.replace("http://", ""));
  const scrape_configs = jobs.map(({ name, path, format, rust: isRust }) => ({
    job_name: name,
    metrics_path: path,
    ...(format ? { params: { format: [format] } } : {}),
    static_configs: [{ targets: [name === "tritonserver" ? triton : isRust ? ofRust : address] }],
  }));
  const config = join(folder, "prometheus.yml");
  writeFileSync(
    config,
    stringify({ global: { scrape_interval: `${SCRAPE_S}s`, scrape_timeout: `${SCRAPE_S}s` }, scrape_configs }),
  );
  prometheus = await Prometheus.start(config, join(folder, "data"));
  clients = Array.from({ length: CLIENTS }, (_, index) => client(index));
  // Prometheus updates its targets every five seconds.
  await eventually(async () => (await prometheus.query("up")).length === jobs.length, 2000);
  await Bun.sleep(UNDER_LOAD_MS);
});

afterAll(async () => {
  loaded = false;
  await Promise.all(clients);
  await prometheus?.stop();
  await server?.stop();
  await rust?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Sends one request after the other. Disconnects during every fifth answer. Every seventh request is invalid. */
async function client(index: number): Promise<void> {
  for (let n = index; loaded; n++) {
    const leaving = new AbortController();
    const max_tokens = n % 7 === 0 ? -1 : 1 + ((n * 37) % 60);
    const body = JSON.stringify({ prompt: `${n} and so on`, max_tokens, stream: n % 2 === 0 });
    const headers = { "content-type": "application/json" };
    const asked = fetch(`${server.url}/v1/completions`, { method: "POST", headers, body, signal: leaving.signal });
    if (n % 5 === 0) setTimeout(() => leaving.abort(), 50);
    await asked.then((response) => response.arrayBuffer()).catch(() => {});
  }
}

interface Target {
  readonly labels: Readonly<Record<string, string>>;
  readonly health: string;
  readonly lastError: string;
}

test("every target is up, and was up at each scrape", async () => {
  const { activeTargets } = await prometheus.api<{ activeTargets: readonly Target[] }>("targets");
  const seen = activeTargets.map(({ labels, health, lastError }) => [labels.job, health, lastError]);
  expect(seen.sort()).toEqual(jobs.map(({ name }) => [name, "up", ""]).sort());
  const scrapes = await prometheus.query("count_over_time(up[2m])");
  expect(scrapes.length).toBe(jobs.length);
  const least = (2 / 3) * (UNDER_LOAD_MS / (1000 * SCRAPE_S));
  for (const { metric, value } of scrapes) expect([metric.job, value >= least]).toEqual([metric.job, true]);
  expect(await prometheus.query("min_over_time(up[2m]) < 1")).toEqual([]);
});

interface Metadata {
  readonly metric: string;
  readonly type: string;
  readonly help: string;
}

/** Identity of the live server: one process on a machine, with all families of Triton. */
const triton = { ...identity.triton, cpu: true, histograms: true, quantiles: [0.5, 0.9] };
const shown = { ...identity, ownProcess: true, triton };

/**
 * Returns name, type and help of each family in the tables. In the text format a counter's `_created` is a separate family.
 */
function ofTheTables({ dialects: names, format, rust: isRust }: Job): string[][] {
  const rows = names.flatMap((name) => metricsDialects[name].rows(isRust ? { ...shown, profile: RUST } : shown));
  return rows.flatMap(({ name, type, help, created }) => {
    const base = type === "counter" ? name.replace(/_total$/, "") : name;
    if (format === "openmetrics" || isRust) return [[base, type, help]];
    return created
      ? [
          [name, type, help],
          [`${base}_created`, "gauge", help],
        ]
      : [[name, type, help]];
  });
}

test.each(jobs.map((job) => [job.name, job] as const))(
  "%s: types and helps equal the tables, and each family appears once",
  async (name, job) => {
    const match_target = `{job="${name}"}`;
    const query = new URLSearchParams({ match_target });
    const known = await prometheus.api<readonly Metadata[]>(`targets/metadata?${query}`);
    const expected = ofTheTables(job);
    expect(new Set(expected.map(([family]) => family)).size).toBe(expected.length);
    expect(known.map(({ metric, type, help }) => [metric, type, help]).sort()).toEqual(expected.sort());
  },
);

test("promtool reads every page, and has the same complaints about our vLLM page as about the real one", async () => {
  const page = async (path: string) => (await fetch(`${server.url}${path}?format=text`)).text();
  for (const name of dialectNames)
    expect([name, (await checkMetrics(await page(`/metrics/${name}`))).code]).not.toEqual([name, 1]);
  const recorded = new URL("../conformance/recorded/vllm-0.33-server-exposition.txt", import.meta.url);
  const [ours, real] = [await page("/metrics/vllm"), await Bun.file(recorded).text()];
  const { code, findings } = await checkMetrics(real);
  const shown = findings.filter((finding) => ours.includes(`# TYPE ${finding.split(" ")[0]} `));
  expect(shown.length).toBeGreaterThan(60);
  expect(await checkMetrics(ours)).toEqual({ code, findings: shown });
});

test("no sample is lost, duplicate, late or out of order", async () => {
  const page = await (await fetch(`${prometheus.url}/metrics`)).text();
  const counts = [
    ...page.matchAll(/^(prometheus_target_scrapes_\w+_total|prometheus_target_scrape_pool\w*_failed_total) (\S+)$/gm),
  ];
  expect(counts.length).toBeGreaterThan(4);
  expect(counts.filter(([, , value]) => value !== "0").map(([line]) => line)).toEqual([]);
  // If a page has a series twice, Prometheus silently keeps the first sample.
  for (const { name } of jobs) {
    const job = `job="${name}"`;
    const lost = `scrape_samples_scraped{${job}} - ignoring (__name__) on (job) (count by (job) ({${job},__name__!~"up|scrape_.*"}))`;
    expect([name, await prometheus.query(lost.replace("ignoring (__name__) ", ""))]).toEqual([
      name,
      [expect.objectContaining({ value: 0 })],
    ]);
  }
});

test("counters never fall, and the load has moved the expected metrics", async () => {
  const growing = (await prometheus.api<Record<string, readonly Metadata[]>>("metadata")) as Record<
    string,
    readonly Metadata[]
  >;
  const names = Object.entries(growing).flatMap(([name, [first]]) => {
    if (first!.type === "counter") return [name, `${name}_total`];
    return first!.type === "histogram" ? [`${name}_bucket`, `${name}_count`, `${name}_sum`] : [];
  });
  expect(names.length).toBeGreaterThan(50);
  for (const name of names) expect([name, await prometheus.query(`resets(${name}[2m]) > 0`)]).toEqual([name, []]);
  for (const name of [
    "vllm:generation_tokens_total",
    "vllm:e2e_request_latency_seconds_count",
    "understudy_steps_total",
  ]) {
    const moved = await prometheus.query(`increase(${name}[1m]) > 0`);
    const dialect = name.split(/[:_]/)[0] as MetricsDialectName;
    const shown = moved.map(({ metric }) => metric.job).filter((job) => job!.startsWith(dialect));
    expect([name, shown.sort()]).toEqual([name, FORMATS.map((format) => `${dialect}-${format}`).sort()]);
  }
  const outcomes = await prometheus.query('sum by (outcome) (understudy_requests_total{job="understudy-text"}) > 0');
  expect(outcomes.map(({ metric }) => metric.outcome).sort()).toEqual(["abort", "length", "refused", "stop"]);
});

test("queries that need a live server have values", async () => {
  const lines = dashboards.flatMap(({ sections }) =>
    sections.flatMap(({ panels }) => panels.flatMap((panel) => panel.lines.map(([expr]) => expr))),
  );
  const asked = [...lines, ...[...queries, ...expressions].map(({ expr }) => expr)].filter((expr) =>
    LIVE_ONLY.test(expr),
  );
  expect(asked.length).toBeGreaterThan(5);
  for (const expr of asked) {
    const answer = await prometheus.query(promql(expr.replace(/\$(job|instance|choice)/g, ".*")));
    expect([expr, answer.some(({ value }) => Number.isFinite(value))]).toEqual([expr, true]);
  }
});
