/** Tests that a page judged only by general laws is not reported as clean, and that pages with other names are judged. */
import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { checkScrapes, parse, type Report, recognise } from "../../../src/tools/check/index.ts";
import { checkTable, exitCode, json, junit } from "../../../src/tools/check/report.ts";
import { spoiled } from "./spoil.ts";

const folder = new URL("pages/", import.meta.url);
const read = (name: string) => readFileSync(new URL(name, folder), "utf8");
const names = readdirSync(folder).sort();
const ids = ({ violated }: Report) => violated.map(({ id }) => id);
const verdict = (report: Report, id: string) => report.laws.find((law) => law.id === id)!.verdict;
const table = (report: Report) => checkTable([{ name: "page.txt", report }]);

interface ExpectedResult {
  readonly dialects: readonly string[];
  readonly violated?: readonly string[];
  readonly generalOnly?: string;
  /** A law of the dialect that the page keeps, and changes of a line that break it. */
  readonly law?: readonly [id: string, from: string, to: string];
}

/** Pages from users with the expected results. */
const WANTED: Readonly<Record<string, ExpectedResult>> = {
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

describe("pages from users", () => {
  test("each page has an expected result", () => expect(Object.keys(WANTED).sort()).toEqual(names));

  test.each(Object.entries(WANTED))(
    "%s gets its expected result",
    (name, { dialects, violated = [], generalOnly = null, law }) => {
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
    },
  );

  test.each(names)("every applicable damage of %s is found", (name) => {
    const known = new Set(WANTED[name]!.violated ?? []);
    for (const { damage, laws, text } of spoiled(read(name))) {
      if (laws.every((id) => known.has(id))) continue;
      const broken = ids(checkScrapes([text])).filter((id) => !known.has(id));
      expect({ damage, found: laws.some((id) => broken.includes(id)), broken }).toMatchObject({ found: true });
    }
  });
});

describe("only general laws", () => {
  const unknown = "# TYPE mine gauge\nmine 1\n";

  test("an unknown page is reported first, also with --quiet, in JSON and in JUnit", () => {
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

  test("a custom law, or one judged page of a watch, is enough", () => {
    const gauge = 'vllm:prefix_cache_hits_total{engine="0"} 0\nvllm:prefix_cache_queries_total{engine="0"} 1\n';
    expect(checkScrapes([unknown, gauge]).generalOnly).toBeNull();
    expect(checkScrapes([gauge], { only: ["G05"] }).generalOnly).toBeNull();
    expect(checkScrapes([unknown], { only: ["G05"] }).generalOnly).toContain("not known");
  });

  test("two of vLLM's names do not make an engine vLLM, nor do three without its labels", () => {
    const spoken = (text: string) => checkScrapes([text]).dialects;
    expect(spoken('num_requests_running{model_name="m"} 1\nprompt_tokens_total{model_name="m"} 1\n')).toEqual([]);
    expect(spoken("num_requests_running 1\nprompt_tokens_total 1\ngeneration_tokens_total 1\n")).toEqual([]);
    expect(spoken("envoy_vllm_upstream_rq_total 1\nenvoy_vllm_membership_total 2\n")).toEqual([]);
    expect(spoken('e2e_request_latency_seconds_count{engine_type="mine"} 1\n')).toEqual([]);
  });

  test("each dialect is recognised with a foreign prefix", () => {
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

  test("its gauges may disappear with a server, and its sliding windows move at rest", () => {
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

  test("an engine with a collector's label is not taken for the router", () => {
    const engine = 'vllm:num_requests_running{server="a"} 1\nvllm:prompt_tokens_total{server="a"} 1\n';
    expect(checkScrapes([engine]).dialects).toEqual(["vllm"]);
  });
});
