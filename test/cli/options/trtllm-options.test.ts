/** Tests the effect of TensorRT-LLM's options on the engine, and the options that are refused together with them. */
import { expect, test } from "bun:test";
import { TrtConfig } from "../../../assembly/trtllm/layout.ts";
import { describe as banner } from "../../../src/cli/serve/banner.ts";
import { resolveServeConfig } from "../../../src/cli/serve/resolve.ts";
import type { EngineConfig } from "../../../src/engine/config/engine-config.ts";
import { coreSetup } from "../../../src/engine/setup.ts";
import { coreName } from "../../../src/engine/trtllm-setup.ts";

const POLICY = "--capacity-scheduler-policy GUARANTEED_NO_EVICT";

const resolveAll = (line: string) =>
  resolveServeConfig(line.split(" ").filter(Boolean), {}, () => {
    throw new Error("no file");
  });

function resolve(line: string) {
  const resolved = resolveAll(line);
  if ("error" in resolved) return resolved.error;
  return "config" in resolved ? resolved.config.engine : resolved.help;
}

function engine(line: string): EngineConfig {
  const resolved = resolve(line);
  if (typeof resolved !== "object") throw new Error(String(resolved));
  return resolved;
}

test("without a policy the engine uses vLLM's scheduler and core", () => {
  const config = engine("");
  expect(config.trtllm).toBeUndefined();
  expect(coreName(config)).toBe("core");
  expect(coreSetup(config, { eosId: 2 }).trt).toBeUndefined();
});

test("with a policy TensorRT-LLM's defaults apply", () => {
  const { trtllm, maxNumSeqs, maxNumActiveSeqs, maxNumBatchedTokens, blockSize, ...config } = engine(POLICY);
  expect([maxNumSeqs, maxNumActiveSeqs, maxNumBatchedTokens, blockSize]).toEqual([2048, 2048, 8192, 32]);
  expect([config.enablePrefixCaching, config.asyncScheduling, config.schedulingPolicy]).toEqual([true, true, "fcfs"]);
  expect(trtllm).toEqual({
    capacitySchedulerPolicy: "GUARANTEED_NO_EVICT",
    contextChunkingPolicy: "FIRST_COME_FIRST_SERVED",
    maxInputLen: config.maxModelLen,
    enablePartialReuse: true,
    copyOnPartialReuse: true,
    enablePrefixAwareScheduling: true,
  });
});

test("the pool is proportional to the share of the free memory, unless it is overridden", () => {
  const blocks = (more: string) => engine(`${POLICY} ${more}`).numGpuBlocks - 1;
  const [half, whole] = [0.5, 1].map((share) =>
    blocks(`--kv-cache-free-gpu-mem-fraction ${share} --max-model-len 1000`),
  );
  expect(Math.abs(whole! - 2 * half!)).toBeLessThanOrEqual(1);
  expect(blocks("--kv_cache_free_gpu_mem_fraction 0.5 --max-model-len 1000")).toBe(half!);
  expect(blocks("--num-gpu-blocks-override 5000")).toBe(4999);
});

test("every option reaches the core", () => {
  const config = engine(
    "--capacity-scheduler-policy MAX_UTILIZATION --context-chunking-policy EQUAL_PROGRESS --max-batch-size 16 --max-num-tokens 4k --max-input-len 300 --tokens-per-block 64 --no-enable-block-reuse --no-enable-partial-reuse --no-copy-on-partial-reuse --no-enable-prefix-aware-scheduling --disable-overlap-scheduler --waiting-queue-policy priority --enable-lora --max-loras 3",
  );
  expect([config.maxNumSeqs, config.maxNumBatchedTokens, config.blockSize]).toEqual([16, 4000, 64]);
  expect([config.enablePrefixCaching, config.asyncScheduling, config.schedulingPolicy]).toEqual([
    false,
    false,
    "priority",
  ]);
  expect(coreName(config)).toBe("trtllm");
  const { trt } = coreSetup(config, { eosId: 2 });
  expect(Object.fromEntries(Object.entries(trt!).map(([at, value]) => [TrtConfig[Number(at)], value]))).toEqual({
    CapacityPolicy: 1,
    ChunkingPolicy: 1,
    MaxBatchSize: 16,
    MaxNumRequests: 16,
    MaxContextLength: 4000,
    ChunkUnit: 64,
    MaxInputLen: 300,
    PartialReuse: 0,
    CopyOnPartialReuse: 0,
    PrefixAwareScheduling: 0,
    TwoStepLookahead: 0,
    CppExecutor: 0,
    PeftPages: 1,
    PeftMaxPages: 3,
  });
});

test("with MAX_REQUESTS any pool is large enough, and length auto is the model's length", () => {
  const line = "--capacity-scheduler-policy MAX_REQUESTS --num-gpu-blocks-override 41 --block-size 16";
  expect(engine(`${line} --max-model-len 1000`).maxModelLen).toBe(1000);
  expect(engine(`${line} --max-model-len auto`).maxModelLen).toBe(131072);
  expect(engine(`${POLICY} --num-gpu-blocks-override 41 --block-size 16 --max-model-len auto`).maxModelLen).toBe(640);
});

test("without chunked prefill the longest input is limited to one iteration", () => {
  const line = `${POLICY} --no-enable-chunked-prefill --max-model-len 8000`;
  expect(engine(line).trtllm!.maxInputLen).toBe(8000);
  expect(engine(`${line} --max-input-len 100`).trtllm!.maxInputLen).toBe(100);
});

test.each([
  ["--max-batch-size 8", "--max-batch-size: needs --capacity-scheduler-policy (GUARANTEED_NO_EVICT"],
  [
    `${POLICY} --max-num-seqs 8`,
    "--max-num-seqs: only for vLLM's scheduler; with --capacity-scheduler-policy use --max-batch-size",
  ],
  [
    `${POLICY} --watermark 0.1`,
    "--watermark: only for vLLM's scheduler; --capacity-scheduler-policy has no such limit",
  ],
  [
    "--capacity-scheduler-policy PREFILL_FIRST",
    "GUARANTEED_NO_EVICT or MAX_UTILIZATION or STATIC_BATCH or MAX_REQUESTS",
  ],
  [
    `${POLICY} --no-enable-chunked-prefill --max-num-tokens 500 --max-model-len 501`,
    "without chunked prefill it must be at least",
  ],
  [`${POLICY} --max-num-tokens 31`, "it must be at least the default tokens-per-block (32)"],
  [`${POLICY} --num-gpu-blocks-override 10`, "Raise --num-gpu-blocks-override or --kv-cache-free-gpu-mem-fraction"],
])("%s is refused in one line", (line, why) => {
  const error = resolve(line);
  expect(error).toBeString();
  expect(error as string).toContain(why);
  expect(error as string).not.toContain("\n");
});

test("the banner has the scheduler and its settings under TensorRT-LLM's names", () => {
  const resolved = resolveAll(`${POLICY} --disable-overlap-scheduler --max-batch-size 8 --max-model-len 4096`);
  if (!("config" in resolved)) throw new Error("refused");
  expect(
    banner(resolved.config, { url: "http://127.0.0.1:1", tritonUrl: null, http2Url: null }, 1, { mode: "single" }),
  ).toContain(
    "  scheduling  TensorRT-LLM's GUARANTEED_NO_EVICT, chunks FIRST_COME_FIRST_SERVED, no overlap, block reuse, fcfs; max_batch_size 8, max_num_tokens 8192, max_model_len 4096\n",
  );
});
