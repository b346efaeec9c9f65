/** Tests that a pasted text is not blamed for left-out families and buckets, and an older version not for those that it lacks. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { seeded } from "../../../src/base/random.ts";
import { checkScrapes, type Report } from "../../../src/tools/check/index.ts";

const read = (name: string) => readFileSync(new URL(`pages/${name}`, import.meta.url), "utf8");
const recorded = (name: string) => readFileSync(new URL(`recorded/${name}`, import.meta.url), "utf8");
const verdict = (report: Report, id: string) => report.laws.find((law) => law.id === id)!.verdict;

describe("excerpts without a mark", () => {
  const contentType = "text/plain; version=0.0.4";
  const g09 = (text: string, more = {}) => checkScrapes([{ text, ...more }], { only: ["G09"] }).violated;
  const buckets = (...bounds: readonly string[]) =>
    bounds.map((le) => `vllm:time_to_first_token_seconds_bucket{engine="E",le="${le}"} 0\n`).join("");
  const page = (...series: readonly string[]) =>
    `# TYPE vllm:time_to_first_token_seconds histogram\n${series.map((lines, i) => lines.replaceAll("E", String(i))).join("")}`;

  test("left-out buckets do not count as other bounds, except in a server's answer", () => {
    const text = page(buckets("0.1", "+Inf"), buckets("0.5", "+Inf"));
    expect(g09(text)).toEqual([]);
    expect(g09(text, { contentType })).not.toEqual([]);
    const other = page(buckets("0.3", "+Inf")).replaceAll("vllm:", "trtllm_");
    expect(g09(other)).not.toEqual([]);
  });

  test("left-out families: N10 and T11 are not judged, except in a server's answer", () => {
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

  test("Dynamo's series of finished requests appear with the first one; a pasted text may leave them out", () => {
    const text = "dynamo_frontend_requests_started_total 5\ndynamo_frontend_inflight_requests 0\n";
    const d01 = (more = {}) => verdict(checkScrapes([{ text, ...more }], { only: ["D01"] }), "D01");
    expect(d01()).toBe("not checkable");
    expect(d01({ contentType })).toBe("violated");
  });

  test.each([
    ...["vllm-clean-99-rest1.txt", "vllm-aborts-02-step0080.txt", "triton-2.51-all_on.after.txt"],
    "dynamo-1.6.1-frontend-kv-after-load.txt",
  ])("any families and buckets of %s may be left out without a violation", (name) => {
    const draw = seeded(7);
    const random = () => draw() / 2 ** 32;
    const families = recorded(name).split(/^(?=# HELP)/m);
    for (let i = 0; i < 12; i++) {
      const [kept, boundsKept] = [random(), random()];
      const bounds = new Map<string, boolean>();
      const isKept = (line: string) => {
        const [, le = "+Inf"] = /_bucket\{.*le="([^"]*)"/.exec(line) ?? [];
        if (!bounds.has(le)) bounds.set(le, le === "+Inf" || random() < boundsKept);
        return bounds.get(le)!;
      };
      const text = families
        .filter(() => random() < kept)
        .map((family) => family.split("\n").filter(isKept).join("\n"))
        .join("");
      if (text === "") continue;
      const { violated } = checkScrapes([text]);
      expect({ text: violated.length > 0 ? text : "", violated: violated.map(({ id }) => id) }).toEqual({
        ...{ text: "", violated: [] },
      });
    }
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

  test("before 1.3 queue times of 0 are not observed, but all others are", () => {
    const verdicts = [s03(page(3)), s03(page(6)), s03(page(3, NEW)), s03(page(5, NEW))];
    expect(verdicts).toEqual(["held", "violated", "violated", "held"]);
  });

  test("--engine-version overrides the version that the page shows", () => {
    const verdicts = [s03(page(3), "1.3.0"), s03(page(3, NEW), "1.1.0rc5"), s03(page(3), "v1.2")];
    expect(verdicts).toEqual(["violated", "held", "held"]);
    const { versions } = checkScrapes([page(3)], { engineVersions: ["1.1"] });
    expect(versions).toMatchObject([{ of: "trtllm-serve", id: "1.0 to 1.2", toldBy: "--engine-version 1.1" }]);
  });

  test("the first report of an older backend, as in its README, is a note; a larger gap is a violation", () => {
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

  test("the timestamp in seconds of an older backend may stay the same while it iterates", () => {
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
