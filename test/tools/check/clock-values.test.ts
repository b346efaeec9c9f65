/** Tests that law G21 finds values that no clock or counter can give, and no others. */
import { describe, expect, test } from "bun:test";
import { checkScrapes } from "../../../src/tools/check/index.ts";

describe("impossible values of clocks and counters", () => {
  const g21 = (...pages: readonly (string | { text: string; atS: number })[]) =>
    checkScrapes(pages, { only: ["G21"] }).laws[0]!;
  const counter = (value: string) => `# TYPE x_total counter\nx_total ${value}\n`;
  const triton = (requests: number, us: number) =>
    `nv_inference_request_success{model="m"} ${requests}\nnv_inference_queue_duration_us{model="m"} ${us}\n`;

  test("values of 2^63 and more are explained as unsigned differences", () => {
    expect(g21(counter("9.2e18")).verdict).toBe("held");
    const { violations } = g21(counter("18446744073709549568"));
    expect(violations[0]!.looksLike).toContain("is 2^64 − 2048: an unsigned 64-bit difference fell below zero");
    const nanoseconds = g21(triton(1, 2 ** 64 / 1000 - 500));
    expect(nanoseconds.violations[0]!.looksLike).toContain("is 2^64 ÷ 1000 − ");
    expect(g21('vllm:num_requests_running{engine="0"} 18446744073709551615\n').verdict).toBe("violated");
  });

  test("counters of operations and bytes may be that large, and a memory limit is not a counter", () => {
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

  test("between two scrapes a time grows at most by the elapsed time per request under way", () => {
    const vllm = (running: number, ended: number, seconds: number) =>
      `vllm:num_requests_running{engine="0"} ${running}
vllm:num_requests_waiting{engine="0"} 0
vllm:e2e_request_latency_seconds_sum{engine="0"} ${seconds}
vllm:e2e_request_latency_seconds_count{engine="0"} ${ended}
`;
    const watch = (running: number, ended: number, seconds: number) =>
      g21({ text: vllm(running, 10, 50), atS: 100 }, { text: vllm(0, ended, seconds), atS: 105 }).verdict;
    // No request ran before, so five requests of five seconds each are the most.
    expect(watch(0, 15, 75)).toBe("held");
    expect(watch(0, 15, 5050)).toBe("violated");
    // A request that was running at the scrape before may be old.
    expect(watch(1, 11, 5050)).toBe("held");
    // Without real times the elapsed time is unknown.
    expect(g21(vllm(0, 10, 50), vllm(0, 15, 5050)).verdict).toBe("held");
  });
});
