/**
 * llama-3.1-8b, bf16, 1 × A100, vllm 0.14.0. Times in microseconds; the form is in `../timing.ts`.
 * Source: aiconfigurator-core 0.12.0 (operator database),
 * systems/data/a100_sxm/{gemm,attention,comm,moe}/vllm/0.14.0/*.parquet, model config meta-llama--Meta-Llama-3.1-8B.
 * Mixed steps are within 5.6 % of the source (mean 1.5 %); not calibrated: no measured points.
 * Request overhead: not measured here; what such an engine's API server and tokenizer take elsewhere (docs/timing.md).
 */
import type { Profile } from "../timing/profile.ts";
import { LINEAR_TOKENS } from "./grid.ts";

export const profile: Profile = {
  name: "llama-3.1-8b-bf16-a100-tp1-vllm",
  model: "llama-3.1-8b",
  gpu: "a100",
  tp: 1,
  precision: "bf16",
  engine: "vllm 0.14.0",
  gpuMemoryBytes: 85899345920,
  kvBytesPerToken: 131072,
  poolTokens: 467295,
  valid: { tokensPerStep: [1, 16384], prefixTokens: [0, 16384], sequences: [1, 256], contextEach: [128, 16384] },
  timing: {
    kind: "table",
    name: "llama-3.1-8b-bf16-a100-tp1-vllm",
    linearTokens: LINEAR_TOKENS,
    linearUs: [
      11220, 11080, 10990, 10890, 11260, 11340, 11360, 11620, 11630, 11710, 11710, 11620, 11750, 13620, 13600, 13370,
      13380, 13520, 13530, 13670, 13870, 20030, 20100, 21040, 21050, 21220, 21230, 21400, 21430, 34230, 34290, 47630,
      47690, 61210, 61260, 74920, 74970, 88620, 88670, 102300, 102400, 116000, 116100, 130300, 130300, 144500, 144500,
      158700, 158700, 172900, 172900, 187000, 187100, 201200, 201200, 215300, 215400, 229500, 229500, 243700, 243800,
      456700, 914200,
    ],
    prefill: { baseUs: 559.8, newUs: 1.531, prefixUs: 0, pairsUs: 0.002845 },
    decode: { baseUs: 659.7, seqUs: 0, ctxUs: 0.08458 },
    sharedBase: false,
    scale: 1,
    overheadUs: 0,
    requestOverheadUs: 12000,
  },
};
