/**
 * qwen3-32b, fp8, 1 × H200, vllm 0.24.0. Times in microseconds; the form is in `../timing.ts`.
 * Source: aiconfigurator-core 0.12.0 (operator database),
 * systems/data/h200_sxm/{gemm,attention,comm,moe}/vllm/0.24.0/*.parquet, model config Qwen--Qwen3-32B.
 * Mixed steps are within 2.4 % of the source (mean 1.0 %); not calibrated: no measured points.
 * Request overhead: not measured here; what such an engine's API server and tokenizer take elsewhere (docs/timing.md).
 */
import type { Profile } from "../timing/profile.ts";
import { LINEAR_TOKENS } from "./grid.ts";

export const profile: Profile = {
  name: "qwen3-32b-fp8-h200-tp1-vllm",
  model: "qwen3-32b",
  gpu: "h200",
  tp: 1,
  precision: "fp8",
  engine: "vllm 0.24.0",
  gpuMemoryBytes: 151397597184,
  kvBytesPerToken: 262144,
  poolTokens: 394812,
  valid: { tokensPerStep: [1, 16384], prefixTokens: [0, 16384], sequences: [1, 256], contextEach: [128, 16384] },
  timing: {
    kind: "table",
    name: "qwen3-32b-fp8-h200-tp1-vllm",
    linearTokens: LINEAR_TOKENS,
    linearUs: [
      11420, 11320, 11360, 10950, 11420, 11540, 15350, 13800, 14020, 11890, 11940, 12120, 15720, 14260, 14030, 13570,
      13790, 13380, 13400, 13720, 24130, 22160, 22520, 20360, 20020, 18390, 18190, 18480, 45540, 29540, 54150, 41120,
      73390, 53110, 84530, 71600, 101500, 81810, 105600, 95560, 120400, 103800, 141700, 123800, 160400, 138300, 184500,
      148300, 191600, 160400, 194500, 178700, 212300, 190900, 215600, 200700, 238000, 213700, 243100, 234400, 279200,
      410900, 880300,
    ],
    prefill: { baseUs: 2771, newUs: 2.57, prefixUs: 0, pairsUs: 0.00306 },
    decode: { baseUs: 840.2, seqUs: 8.93, ctxUs: 0.05983 },
    sharedBase: false,
    scale: 1,
    overheadUs: 0,
    requestOverheadUs: 12000,
  },
};
