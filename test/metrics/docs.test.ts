/** Checks that docs/reference/metrics.md names every fix, and families that need an option. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { FIX_NAMES } from "../../src/engine/config/engine-config.ts";

const docs = readFileSync(new URL("../../docs/reference/metrics.md", import.meta.url), "utf8");

test.each(FIX_NAMES)("--fix %s is described", (fix) => {
  expect(docs).toContain(`| \`${fix}\` |`);
});

test("families that need an option are in the table, too", () => {
  const opted = [
    "vllm:lora_requests_info",
    "nv_inference_first_response_histogram_ms",
    "nv_inference_queue_summary_us",
  ];
  for (const name of opted) expect(docs).toContain(`| \`${name}\` |`);
});
