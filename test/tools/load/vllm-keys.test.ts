/** Tests that the flat keys equal vLLM's. Its own function (vllm 0.33.0, `calculate_metrics`) was run on the same requests. */
import { expect, test } from "bun:test";
import type { RequestRecord } from "../../../src/tools/load/requests/types.ts";
import { FLAT_METRICS, flatKeys } from "../../../src/tools/load/vllm-keys.ts";
import recorded from "./recorded-vllm-metrics.json";

const records = recorded.requests.map((request, index): RequestRecord => {
  let atUs = (request.start_s + request.ttft_s) * 1e6;
  const chunkUs = Float64Array.from([0, ...request.itl_s], (gap) => {
    atUs += gap * 1e6;
    return Math.round(atUs);
  });
  return {
    index,
    requestId: String(index),
    intendedUs: request.start_s * 1e6,
    sendUs: request.start_s * 1e6,
    firstUs: chunkUs[0]!,
    lastUs: chunkUs.at(-1)!,
    endUs: chunkUs.at(-1)!,
    chunkUs,
    chunkTokens: new Int32Array(chunkUs.length),
    inputTokens: request.input_tokens,
    outputTokens: request.output_tokens,
    usage: true,
    wantedTokens: null,
    cachedTokens: 0,
    status: 200,
    failure: request.failed ? { kind: "status", message: "" } : null,
    retries: 0,
    disturbed: null,
    done: true,
  };
});

const keys = flatKeys(records, {
  dialect: "openai-chat",
  metrics: FLAT_METRICS,
  percentiles: recorded.percentiles,
  slo: recorded.goodput,
  concurrency: null,
  rate: Number.POSITIVE_INFINITY,
  detailed: true,
  durationS: recorded.duration_s,
});

test.each(Object.entries(recorded.expected))("%s has vLLM's value", (key, value) => {
  expect(keys[key] as number).toBeCloseTo(value, 3);
});

test("lengths and failed requests as in vLLM", () => {
  expect(keys.output_lens).toEqual(recorded.output_lens);
});
