/** Tests the laws with numbers from guides about TensorRT-LLM, both right and wrong ones. */
import { expect, test } from "bun:test";
import { checkScrapes } from "../../../src/tools/check/index.ts";

const series = (family: string, label: string, values: Readonly<Record<string, number>>) =>
  Object.entries(values)
    .map(([type, value]) => `nv_trt_llm_${family}{model="tensorrt_llm",${label}="${type}",version="1"} ${value}\n`)
    .join("");
const requests = (values: Readonly<Record<string, number>>) =>
  `# TYPE nv_trt_llm_request_metrics gauge\n${series("request_metrics", "request_type", values)}`;
const blocks = (values: Readonly<Record<string, number>>) =>
  `# TYPE nv_trt_llm_kv_cache_block_metrics gauge\n${series("kv_cache_block_metrics", "kv_cache_block_type", values)}`;
/** The page has only one family, so T11 reports the others as missing. */
const brokenBy = (page: string) =>
  checkScrapes([page])
    .violated.map(({ id }) => id)
    .filter((id) => id !== "T11");

test("active 13, scheduled 8: five wait, so a page with three is wrong", () => {
  const sample = { active: 13, scheduled: 8, context: 2, max: 64 };
  expect(brokenBy(requests({ ...sample, waiting: 3 }))).toContain("T01");
  expect(brokenBy(requests({ ...sample, waiting: 5 }))).not.toContain("T01");
});

test("525 of 2048 blocks used: the fraction is 0.256348, and a count of blocks is wrong", () => {
  const sample = { max: 2048, free: 1523, used: 525, tokens_per: 32, reused: 0 };
  expect(brokenBy(blocks({ ...sample, fraction: 0.256348 }))).toEqual([]);
  expect(brokenBy(blocks({ ...sample, fraction: 1523 })).length).toBeGreaterThan(0);
  expect(brokenBy(blocks({ ...sample, free: 1500, fraction: 0.256348 })).length).toBeGreaterThan(0);
});
