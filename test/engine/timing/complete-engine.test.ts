/** Checks that the context length of an unknown model follows the given blocks, in its scheduler's block size. */
import { expect, test } from "bun:test";
import { resolveServeConfig } from "../../../src/cli/serve/resolve.ts";

test.each([
  ["vLLM's 16 tokens per block", "", 128, 127 * 16],
  ["vLLM's --block-size", "--block-size 64", 128, 127 * 64],
  ["trtllm-serve's 32 tokens per block", "--role trtllm-serve", 128, 127 * 32],
  ["TensorRT-LLM's schedulers", "--capacity-scheduler-policy MAX_UTILIZATION", 128, 127 * 32],
  ["--tokens-per-block", "--role trtllm-serve --tokens-per-block 64", 128, 127 * 64],
  [
    "--tokens-per-block before --block-size",
    "--role trtllm-serve --block-size 16 --tokens-per-block 64",
    128,
    127 * 64,
  ],
])("the context length of an unknown model follows from the blocks, with %s", (_, flags, blocks, tokens) => {
  const argv = `--model some/model --num-gpu-blocks-override ${blocks} ${flags}`.trim().split(" ");
  const resolved = resolveServeConfig(argv, {}, () => "");
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  expect(resolved.config.engine.maxModelLen).toBe(tokens);
});
