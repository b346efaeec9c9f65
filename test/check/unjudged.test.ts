/** Tests that no page is called clean which only general laws judged, and that pages under other names are judged. */
import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { type CheckOptions, checkScrapes, type NameMap, parse, type Report, recognise } from "../../src/check/index.ts";
import { checkTable, exitCode, json, junit } from "../../src/check/report.ts";
import { spoiled } from "./spoil.ts";

const folder = new URL("pages/", import.meta.url);
const read = (name: string) => readFileSync(new URL(name, folder), "utf8");
const names = readdirSync(folder).sort();
const ids = ({ violated }: Report) => violated.map(({ id }) => id);
const verdict = (report: Report, id: string) => report.laws.find((law) => law.id === id)!.verdict;
const table = (report: Report) => checkTable([{ name: "page.txt", report }]);

interface Wanted {
  readonly dialects: readonly string[];
  readonly violated?: readonly string[];
  readonly generalOnly?: string;
  /** A law of the dialect that is held, and changes of a line that break it. */
  readonly law?: readonly [id: string, from: string, to: string];
}

/** What users had: each page, and what is right to say of it. */
const WANTED: Readonly<Record<string, Wanted>> = {
  "declared-without-series.txt": { dialects: ["vllm"], generalOnly: "vllm: families are declared, and have no series" },
  "dynamo-trtllm-1.1.txt": {
    dialects: ["trtllm-serve"],
    law: ["S03", 'queue_time_seconds_count{engine_type="trtllm",model_name="m/a"} 7.0', "13.0"],
  },
  "ensemble-underflow-2.txt": { dialects: ["triton"], violated: ["G21"] },
  "ensemble-underflow.txt": { dialects: ["triton"], violated: ["G21", "N03"] },
  "nim-no-prefix.txt": {
    dialects: ["vllm"],
    law: ["V06", 'prefix_cache_hits_total{engine="0",model_name="m/vl"} 512.0', "40961.0"],
  },
  "triton-gpu-uuid-excerpt.txt": { dialects: ["triton"], law: ["N02", 'version="42"} 54.000000\n# HELP nv_gpu', "55"] },
  "trtllm-serve-unprefixed.txt": {
    dialects: ["trtllm-serve"],
    law: ["S03", 'finished_reason="stop",model_name="undefined"} 2.0', "1.0"],
  },
  "vllm-router.txt": { dialects: ["vllm-router"], generalOnly: "vllm-router: no laws of its own" },
};

describe("pages that users had", () => {
  test("each has its right answer here", () => expect(Object.keys(WANTED).sort()).toEqual(names));

  test.each(Object.entries(WANTED))("%s", (name, { dialects, violated = [], generalOnly = null, law }) => {
    const text = read(name);
    const report = checkScrapes([{ text, source: name }]);
    expect(report.dialects).toEqual([...dialects] as typeof report.dialects);
    expect(ids(report)).toEqual([...violated]);
    expect(report.generalOnly).toBe(generalOnly);
    const [first, ...rest] = table(report).split("\n");
    expect(first).toBe(
      generalOnly === null ? "page.txt" : `page.txt: only general laws could be judged (${generalOnly})`,
    );
    expect(rest.join("\n")).toContain(`${report.applicable} of ${report.laws.length} laws applicable: `);
    expect(exitCode([{ name, report }])).toBe(violated.length > 0 ? 1 : 0);
    const demanded = exitCode([{ name, report }], { requireDialect: true });
    expect(demanded).toBe(violated.length > 0 ? 1 : generalOnly === null ? 0 : 2);
    if (law === undefined) return;
    const [id, from, to] = law;
    expect(verdict(report, id)).toBe("held");
    expect(text.split(from)).toHaveLength(2);
    const broken = text.replace(from, from.replace(/\} \S+/, `} ${to}`));
    expect(ids(checkScrapes([broken]))).toContain(id);
  });

  test.each(names)("%s, spoiled in each way that it has something for: found", (name) => {
    const known = new Set(WANTED[name]!.violated ?? []);
    for (const { how, laws, text } of spoiled(read(name))) {
      const broken = ids(checkScrapes([text])).filter((id) => !known.has(id));
      expect({ how, found: laws.some((id) => broken.includes(id)), broken }).toMatchObject({ found: true });
    }
  });
});

describe("only general laws", () => {
  const unknown = "# TYPE mine gauge\nmine 1\n";

  test("an unknown page says so first, also when quiet, in JSON and in JUnit", () => {
    const report = checkScrapes([unknown]);
    const targets = [{ name: "x", report }];
    const first = "x: only general laws could be judged (the dialect of the page is not known)";
    expect(checkTable(targets)).toStartWith(`${first}\n`);
    expect(checkTable(targets, { quiet: true })).toBe(first);
    expect(JSON.parse(json(targets)).targets[0].report.generalOnly).toBe("the dialect of the page is not known");
    expect(junit(targets)).toContain('name="dialect"><skipped message="only general');
    expect(junit(targets, { requireDialect: true })).toContain('name="dialect"><error message="only general');
    expect(JSON.parse(json(targets, { requireDialect: true })).exitCode).toBe(2);
  });

  test("a law of the caller's own, or one page of a watch that was judged, is enough", () => {
    const gauge = 'vllm:prefix_cache_hits_total{engine="0"} 0\nvllm:prefix_cache_queries_total{engine="0"} 1\n';
    expect(checkScrapes([unknown, gauge]).generalOnly).toBeNull();
    expect(checkScrapes([gauge], { only: ["G05"] }).generalOnly).toBeNull();
    expect(checkScrapes([unknown], { only: ["G05"] }).generalOnly).toContain("not known");
  });

  test("a name or two of vLLM's do not make an engine vLLM, nor do three without its labels", () => {
    const spoken = (text: string) => checkScrapes([text]).dialects;
    expect(spoken('num_requests_running{model_name="m"} 1\nprompt_tokens_total{model_name="m"} 1\n')).toEqual([]);
    expect(spoken("num_requests_running 1\nprompt_tokens_total 1\ngeneration_tokens_total 1\n")).toEqual([]);
    expect(spoken("envoy_vllm_upstream_rq_total 1\nenvoy_vllm_membership_total 2\n")).toEqual([]);
    expect(spoken('e2e_request_latency_seconds_count{engine_type="mine"} 1\n')).toEqual([]);
  });

  test("each dialect is recognised behind a foreign prefix", () => {
    const parsed = parse("x_nv_inference_count 1\nx_nv_inference_exec_count 1\n");
    if ("unreadable" in parsed) throw new Error(parsed.unreadable);
    expect(recognise(parsed).map(({ name }) => name)).toEqual(["triton"]);
    const frontend = "a_dynamo_frontend_requests_total 1\na_dynamo_frontend_requests_started_total 1\n";
    expect(checkScrapes([frontend]).dialects).toEqual(["dynamo-frontend"]);
    const report = checkScrapes(["x_nv_inference_count 1\nx_nv_inference_exec_count 3\n"], { only: ["N02"] });
    expect(report.errors[0]!.violations[0]!.left.text).toBe("x_nv_inference_exec_count");
  });
});

describe("the router of vLLM's production stack", () => {
  const text = read("vllm-router.txt");

  test("its gauges may vanish with a server, and its windows move at rest", () => {
    const idle = text.replace(/(num_requests_running\{\S*) \S+/g, "$1 0.0");
    const later = idle.replace(/(current_qps\S*) 1.4/, "$1 0.2").replace(/.*10\.0\.0\.6.*\n/g, "");
    const report = checkScrapes([
      { text: idle, rest: true },
      { text: later, rest: true },
    ]);
    expect(ids(report)).toEqual([]);
    expect(verdict(report, "G16")).toBe("held");
    expect(verdict(checkScrapes([{ text, rest: true }]), "G19")).toBe("violated");
  });

  test("an engine with a label of its collector is an engine", () => {
    const engine = 'vllm:num_requests_running{server="a"} 1\nvllm:prompt_tokens_total{server="a"} 1\n';
    expect(checkScrapes([engine]).dialects).toEqual(["vllm"]);
  });
});

describe("excerpts without a mark", () => {
  const contentType = "text/plain; version=0.0.4";
  const g09 = (text: string, more = {}) => checkScrapes([{ text, ...more }], { only: ["G09"] }).violated;
  const buckets = (...bounds: readonly string[]) =>
    bounds.map((le) => `vllm:time_to_first_token_seconds_bucket{engine="E",le="${le}"} 0\n`).join("");
  const page = (...series: readonly string[]) =>
    `# TYPE vllm:time_to_first_token_seconds histogram\n${series.map((one, i) => one.replaceAll("E", String(i))).join("")}`;

  test("left out buckets are no other bounds, unless a server answered so", () => {
    const text = page(buckets("0.1", "+Inf"), buckets("0.5", "+Inf"));
    expect(g09(text)).toEqual([]);
    expect(g09(text, { contentType })).not.toEqual([]);
    const other = page(buckets("0.3", "+Inf")).replaceAll("vllm:", "trtllm_");
    expect(g09(other)).not.toEqual([]);
  });

  test("left out families: N10 and T11 say nothing; a server's answer they judge", () => {
    const triton = read("triton-gpu-uuid-excerpt.txt");
    const n10 = (more = {}) => verdict(checkScrapes([{ text: triton, ...more }], { only: ["N10"] }), "N10");
    expect(n10()).toBe("not checkable");
    expect(n10({ contentType })).toBe("violated");
    const blocks = ["max", "free", "used", "tokens_per", "reused", "fraction"];
    const group = blocks.map((type) => `nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="${type}"} 0\n`).join("");
    const t11 = (text: string, more = {}) => verdict(checkScrapes([{ text, ...more }], { only: ["T11"] }), "T11");
    expect(t11(group)).toBe("held");
    expect(t11(group, { contentType })).toBe("violated");
    expect(t11(group.replace(/.*"free".*\n/, ""))).toBe("violated");
  });
});

describe("versions of TensorRT-LLM", () => {
  const page = (queued: number, more = "") => `
trtllm_request_success_total{engine_type="t",finished_reason="stop"} 5
trtllm_request_queue_time_seconds_count{engine_type="t"} ${queued}
${more}`;
  const NEW = 'trtllm_prompt_tokens_total{engine_type="t"} 9\n';
  const s03 = (text: string, ...engineVersions: string[]) =>
    verdict(checkScrapes([text], { only: ["S03"], engineVersions }), "S03");

  test("queue times of 0 are missing before 1.3, and nothing else", () => {
    const verdicts = [s03(page(3)), s03(page(6)), s03(page(3, NEW)), s03(page(5, NEW))];
    expect(verdicts).toEqual(["held", "violated", "violated", "held"]);
  });

  test("--engine-version stands in place of the page", () => {
    const verdicts = [s03(page(3), "1.3.0"), s03(page(3, NEW), "1.1.0rc5"), s03(page(3), "v1.2")];
    expect(verdicts).toEqual(["violated", "held", "held"]);
    const { versions } = checkScrapes([page(3)], { engineVersions: ["1.1"] });
    expect(versions).toMatchObject([{ of: "trtllm-serve", id: "1.0 to 1.2", toldBy: "--engine-version 1.1" }]);
  });

  test("the first report of an older backend, as its README shows it, is a note; a larger gap is none", () => {
    const gauges = (name: string, label: string, values: Readonly<Record<string, number>>) =>
      Object.entries(values)
        .map(([type, value]) => `nv_trt_llm_${name}_metrics{model="m",version="1",${label}="${type}"} ${value}\n`)
        .join("");
    const first = (used: number, iteration: number) =>
      gauges("request", "request_type", { context: 1, scheduled: 1, max: 512, active: 0 }) +
      gauges("kv_cache_block", "kv_cache_block_type", { tokens_per: 64, used, free: 6239, max: 6239 }) +
      gauges("inflight_batcher", "inflight_batcher_specific_metric", {
        generation_requests: 0,
        total_context_tokens: 0,
      }) +
      gauges("general", "general_type", { iteration_counter: iteration, timestamp: 1_700_074_049 });
    const both = (text: string) => ["T04", "T08"].map((id) => verdict(checkScrapes([text]), id));
    expect(both(first(1, 0))).toEqual(["note", "note"]);
    expect(both(first(2, 0))).toEqual(["violated", "note"]);
    expect(both(first(1, 3))).toEqual(["violated", "violated"]);
  });

  test("seconds of an older backend may stand still while it iterates", () => {
    const at = (iteration: number, more = "") =>
      `nv_trt_llm_general_metrics{general_type="iteration_counter"} ${iteration}
nv_trt_llm_general_metrics{general_type="timestamp"} 1700074049
nv_trt_llm_request_metrics{request_type="active"} 0
${more}`;
    const t07 = (more: string) => verdict(checkScrapes([at(1, more), at(9, more)], { only: ["T07"] }), "T07");
    expect(t07("")).toBe("held");
    expect(t07('nv_trt_llm_request_metrics{request_type="waiting"} 0\n')).toBe("violated");
  });
});

describe("names of an engine's own", () => {
  const engine = (requests: number, running: number, observed: number) => `# TYPE my_done_total counter
my_done_total{pool="a"} ${requests}
# TYPE my_failed_total counter
my_failed_total{pool="a"} 1
# TYPE my_running gauge
my_running{pool="a"} ${running}
# TYPE my_latency_seconds histogram
my_latency_seconds_bucket{pool="a",le="0.5"} ${observed}
my_latency_seconds_bucket{pool="a",le="+Inf"} ${observed}
my_latency_seconds_sum{pool="a"} 1
my_latency_seconds_count{pool="a"} ${observed}
`;
  const names: NameMap = {
    dialect: "vllm",
    families: {
      my_done_total: 'request_success_total{finished_reason="stop"}',
      my_failed_total: 'vllm:request_success_total{finished_reason="error"}',
      my_running: "num_requests_running",
      my_latency_seconds: "e2e_request_latency_seconds",
    },
    labels: { pool: "engine" },
  };
  const check = (text: string, more: CheckOptions = {}, rest = true) =>
    checkScrapes([{ text, rest }], { names, ...more });

  test("a right page keeps vLLM's laws; bounds and reasons of its own are no drift", () => {
    const report = check(engine(4, 0, 5));
    expect(ids(report)).toEqual([]);
    expect(report).toMatchObject({ dialects: ["vllm"], generalOnly: null, namesMissing: [] });
    expect(verdict(report, "V15")).toBe("held");
    expect(report.applicable).toBeGreaterThan(checkScrapes([engine(4, 0, 5)]).applicable);
  });

  test("a lost end and a stuck gauge are found, under the names and labels of the page", () => {
    const [lost] = check(engine(4, 0, 6)).errors;
    expect(lost).toMatchObject({ id: "V15" });
    const { left, right } = lost!.violations[0]!;
    expect([left.text, right.text]).toEqual([
      'my_latency_seconds_count{pool="a"}',
      'my_done_total|my_failed_total{pool="a"}',
    ]);
    expect(check(engine(4, 1, 5)).errors.map(({ id }) => id)).toEqual(["G19"]);
    expect(check(engine(4, 1, 5)).errors[0]!.violations[0]!.left.text).toBe('my_running{pool="a"}');
  });

  test("parts of a histogram without # TYPE, and counters of OpenMetrics, have their names too", () => {
    const bare = engine(4, 0, 6).replaceAll(/^#.*\n/gm, "");
    expect(ids(check(bare))).toContain("V15");
    const openMetrics = `${engine(4, 0, 6).replaceAll(/# TYPE (my_\w+)_total/g, "# TYPE $1")}# EOF\n`;
    expect(ids(check(openMetrics))).toContain("V15");
  });

  test("what no page had is told", () => {
    const report = check(engine(4, 0, 5).replaceAll("my_running", "mine"), { restGauges: ["mine", "typo"] });
    expect(report.namesMissing).toEqual(["my_running", "typo"]);
    expect(table(report)).toContain("names that no page had: my_running, typo");
  });

  test("restGauges alone: a gauge that sticks at rest is found; two idle scrapes prove the rest", () => {
    const stuck = checkScrapes([{ text: engine(4, 1, 5), rest: true }], { restGauges: ["my_running"] });
    expect(ids(stuck)).toEqual(["G19"]);
    expect(stuck.generalOnly).toContain("not known");
    const idle = checkScrapes([engine(4, 0, 5), engine(4, 0, 5)], { restGauges: ["my_running"], only: ["G19"] });
    expect(verdict(idle, "G19")).toBe("held");
  });

  test.each<[unknown, string]>([
    [{ dialect: "vlm", families: { a: "b" } }, 'names: dialect "vlm" must be one of vllm, trtllm-serve,'],
    [{ dialect: "vllm", families: {} }, "names: families must be an object of names, with at least one"],
    [
      { dialect: "vllm", families: { a: "request_success" } },
      'names: families: "a": vllm has no family "request_success"',
    ],
    [
      { dialect: "vllm", families: { a: "num_requests_running{" } },
      'names: families: "a": "num_requests_running{" must be',
    ],
    [{ ...names, labels: { pool: "en gine" } }, 'names: labels: "pool": "en gine" must be names of labels'],
    [{ ...names, family: 1 }, 'names: "family" is unknown; accepted are dialect, families, labels'],
    [7, "names: must be an object with dialect, families and, optionally, labels"],
  ])("%j is refused in words", (given, message) => {
    expect(() => check("x 1\n", { names: given as NameMap })).toThrow(message);
  });
});

describe("values that no clock can give", () => {
  const g21 = (...pages: readonly (string | { text: string; atS: number })[]) =>
    checkScrapes(pages, { only: ["G21"] }).laws[0]!;
  const counter = (value: string) => `# TYPE x_total counter\nx_total ${value}\n`;
  const triton = (requests: number, us: number) =>
    `nv_inference_request_success{model="m"} ${requests}\nnv_inference_queue_duration_us{model="m"} ${us}\n`;

  test("2^63 and more, with the unsigned difference by its name", () => {
    expect(g21(counter("9.2e18")).verdict).toBe("held");
    const { violations } = g21(counter("18446744073709549568"));
    expect(violations[0]!.looksLike).toContain("is 2^64 − 2048: an unsigned 64-bit difference fell below zero");
    const nanoseconds = g21(triton(1, 2 ** 64 / 1000 - 500));
    expect(nanoseconds.violations[0]!.looksLike).toContain("is 2^64 ÷ 1000 − ");
    expect(g21('vllm:num_requests_running{engine="0"} 18446744073709551615\n').verdict).toBe("violated");
  });

  test("operations and bytes are counted as fast as that, and a limit of memory is no count", () => {
    expect(
      g21("# TYPE vllm:estimated_flops_per_gpu_total counter\nvllm:estimated_flops_per_gpu_total 9e20\n").verdict,
    ).toBe("held");
    expect(
      g21("# TYPE process_virtual_memory_max_bytes gauge\nprocess_virtual_memory_max_bytes 1.8e19\n").verdict,
    ).toBe("held");
  });

  test.each([
    ["seconds", 400_000_000, 20, "held"],
    ["seconds", 4_000_000_000, 2, "violated"],
    ["ms", 4_000_000_000, 2, "held"],
    ["ns", 9_000_000_000_000_000, 2, "held"],
  ])("a mean above ten years: in %s %d of %d: %s", (unit, sum, count, wanted) => {
    expect(g21(`job_${unit}_sum ${sum}\njob_${unit}_count ${count}\n`).verdict).toBe(wanted as "held");
  });

  test("between two scrapes: elapsed time times what can be under way", () => {
    const vllm = (running: number, ended: number, seconds: number) =>
      `vllm:num_requests_running{engine="0"} ${running}
vllm:num_requests_waiting{engine="0"} 0
vllm:e2e_request_latency_seconds_sum{engine="0"} ${seconds}
vllm:e2e_request_latency_seconds_count{engine="0"} ${ended}
`;
    const watch = (running: number, ended: number, seconds: number) =>
      g21({ text: vllm(running, 10, 50), atS: 100 }, { text: vllm(0, ended, seconds), atS: 105 }).verdict;
    // Nothing ran before, so five requests of five seconds are the most.
    expect(watch(0, 15, 75)).toBe("held");
    expect(watch(0, 15, 5050)).toBe("violated");
    // A request that ran before may be old.
    expect(watch(1, 11, 5050)).toBe("held");
    // The order alone tells no time.
    expect(g21(vllm(0, 10, 50), vllm(0, 15, 5050)).verdict).toBe("held");
  });
});
