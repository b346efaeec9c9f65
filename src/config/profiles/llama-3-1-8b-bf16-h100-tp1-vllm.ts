/**
 * llama-3.1-8b, bf16, 1 × H100, vllm 0.24.0. Times in microseconds; the form is in `../timing.ts`.
 * Source: aiconfigurator-core 0.12.0 (operator database),
 * systems/data/h100_sxm/{gemm,attention,comm,moe}/vllm/0.24.0/*.parquet, model config meta-llama--Meta-Llama-3.1-8B.
 * Mixed steps are within 2.9 % of the source (mean 1.3 %); not calibrated: no measured points.
 * Request overhead: not measured here; what such an engine's API server and tokenizer take elsewhere (docs/timing.md).
 */
import type { Profile } from "../timing/profile.ts";
import { LINEAR_TOKENS } from "./grid.ts";

export const profile: Profile = {
  name: "llama-3.1-8b-bf16-h100-tp1-vllm",
  model: "llama-3.1-8b",
  gpu: "h100",
  tp: 1,
  precision: "bf16",
  engine: "vllm 0.24.0",
  gpuMemoryBytes: 85899345920,
  kvBytesPerToken: 131072,
  poolTokens: 467295,
  valid: { tokensPerStep: [1, 16384], prefixTokens: [0, 16384], sequences: [1, 256], contextEach: [128, 16384] },
  timing: {
    kind: "table",
    name: "llama-3.1-8b-bf16-h100-tp1-vllm",
    linearTokens: LINEAR_TOKENS,
    linearUs: [
      5746, 5950, 6012, 6095, 6001, 6353, 6206, 6369, 6236, 5980, 6112, 6516, 6273, 6306, 6338, 6393, 6393, 6515, 6739,
      6701, 6786, 6696, 7279, 7307, 7201, 7660, 7692, 7745, 8156, 10890, 11490, 15330, 15710, 20550, 21340, 25510,
      25330, 29810, 30830, 35950, 35000, 40240, 40960, 43700, 46120, 50790, 51060, 56090, 58280, 60100, 61260, 67190,
      68310, 72590, 72110, 77800, 76630, 81190, 83300, 89850, 88210, 170100, 333900,
    ],
    prefill: { baseUs: 538.7, newUs: 0.7717, prefixUs: 0, pairsUs: 0.0007346 },
    decode: { baseUs: 422.9, seqUs: 3.659, ctxUs: 0.04151 },
    sharedBase: false,
    scale: 1,
    overheadUs: 0,
    requestOverheadUs: 12000,
  },
};
