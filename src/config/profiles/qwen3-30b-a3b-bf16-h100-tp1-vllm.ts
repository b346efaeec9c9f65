/**
 * qwen3-30b-a3b, bf16, 1 × H100, vllm 0.24.0. Times in microseconds; the form is in `../timing.ts`.
 * Source: aiconfigurator-core 0.12.0 (operator database),
 * systems/data/h100_sxm/{gemm,attention,comm,moe}/vllm/0.24.0/*.parquet, model config Qwen--Qwen3-30B-A3B.
 * Mixed steps are within 1.7 % of the source (mean 0.7 %); not calibrated: no measured points.
 * Request overhead: not measured here; what such an engine's API server and tokenizer take elsewhere (docs/timing.md).
 */
import type { Profile } from "../timing/profile.ts";
import { LINEAR_TOKENS } from "./grid.ts";

export const profile: Profile = {
  name: "qwen3-30b-a3b-bf16-h100-tp1-vllm",
  model: "qwen3-30b-a3b",
  gpu: "h100",
  tp: 1,
  precision: "bf16",
  engine: "vllm 0.24.0",
  gpuMemoryBytes: 85899345920,
  kvBytesPerToken: 98304,
  poolTokens: 165297,
  valid: { tokensPerStep: [1, 16384], prefixTokens: [0, 16384], sequences: [1, 256], contextEach: [128, 16384] },
  timing: {
    kind: "table",
    name: "qwen3-30b-a3b-bf16-h100-tp1-vllm",
    linearTokens: LINEAR_TOKENS,
    linearUs: [
      3793, 5074, 6024, 6970, 9495, 11530, 12050, 18850, 18870, 19850, 19900, 21010, 20990, 21800, 21800, 21880, 21890,
      22520, 22540, 23000, 23060, 23250, 23120, 23420, 23400, 23770, 23850, 23930, 24010, 25770, 25890, 28500, 28720,
      30340, 31220, 33130, 33170, 35640, 35680, 38100, 37840, 40120, 40120, 42860, 43160, 45600, 46740, 48700, 48730,
      50900, 50910, 53940, 53770, 57020, 56380, 59380, 59260, 62570, 62160, 65250, 64980, 108700, 203700,
    ],
    prefill: { baseUs: 2146, newUs: 0.8368, prefixUs: 0, pairsUs: 0.001153 },
    decode: { baseUs: 578.1, seqUs: 2.938, ctxUs: 0.03148 },
    sharedBase: false,
    scale: 1,
    overheadUs: 0,
    requestOverheadUs: 12000,
  },
};
