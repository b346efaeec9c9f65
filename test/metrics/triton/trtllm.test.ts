/** Tests TensorRT-LLM's gauges with several engines of which some have not run yet. */
import { expect, test } from "bun:test";
import { trtllmRows } from "../../../src/metrics/triton/trtllm.ts";
import { emptyEngine, emptySnapshot, identity } from "../snapshots.ts";

const blocks = trtllmRows(identity).find(({ name }) => name === "nv_trt_llm_kv_cache_block_metrics")!;
const begun = { ...emptyEngine(), iterations: 3, blocksUsed: 4 };

/** Values by type. */
const shown = (...engines: (typeof begun)[]) =>
  Object.fromEntries(
    blocks
      .samples(emptySnapshot(engines), identity)
      .map(({ labels, value }) => [labels.kv_cache_block_type!, value] as const),
  );

test("all values are 0 until any engine has ended an iteration, and then capacities are those of all engines", () => {
  expect(Object.values(shown(emptyEngine(), emptyEngine())).filter((value) => value !== 0)).toEqual([]);
  const [single, both] = [shown(begun, emptyEngine()), shown(begun, begun)];
  expect([single.max, single.used, single.free]).toEqual([198, 4, 194]);
  expect([both.max, both.used, both.free]).toEqual([198, 8, 190]);
});
