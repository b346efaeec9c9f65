/**
 * llama-3.1-8b, fp8, 1 × H200, vllm 0.24.0. Times in microseconds; the form is in `../timing.ts`.
 * Source: aiconfigurator-core 0.12.0 (operator database),
 * systems/data/h200_sxm/{gemm,attention,comm,moe}/vllm/0.24.0/*.parquet, model config meta-llama--Meta-Llama-3.1-8B.
 * Mixed steps are within 2.5 % of the source (mean 1.3 %); not calibrated: no measured points.
 * Request overhead: not measured here; what such an engine's API server and tokenizer take elsewhere (docs/timing.md).
 */
import type { Profile } from "../timing/profile.ts";
import { LINEAR_TOKENS } from "./grid.ts";

export const profile: Profile = {
  name: "llama-3.1-8b-fp8-h200-tp1-vllm",
  model: "llama-3.1-8b",
  gpu: "h200",
  tp: 1,
  precision: "fp8",
  engine: "vllm 0.24.0",
  gpuMemoryBytes: 151397597184,
  kvBytesPerToken: 131072,
  poolTokens: 978300,
  valid: { tokensPerStep: [1, 16384], prefixTokens: [0, 16384], sequences: [1, 256], contextEach: [128, 16384] },
  timing: {
    kind: "table",
    name: "llama-3.1-8b-fp8-h200-tp1-vllm",
    linearTokens: LINEAR_TOKENS,
    linearUs: [
      3344, 3241, 3275, 3282, 3352, 3314, 4166, 3830, 3855, 3522, 3520, 3513, 4404, 4136, 4148, 4066, 4042, 3992, 4057,
      4022, 6225, 5870, 5973, 5542, 5575, 5384, 5367, 5426, 10810, 7552, 14130, 11380, 16750, 13350, 21660, 18170,
      26710, 20680, 26920, 23960, 29910, 25950, 35910, 31100, 39460, 34570, 43270, 37590, 45410, 40090, 48500, 44730,
      49830, 46750, 55390, 50040, 55430, 51660, 58730, 56210, 62930, 100300, 203300,
    ],
    prefill: { baseUs: 535.5, newUs: 0.7431, prefixUs: 0, pairsUs: 0.0007498 },
    decode: { baseUs: 420.2, seqUs: 4.09, ctxUs: 0.0296 },
    sharedBase: false,
    scale: 1,
    overheadUs: 0,
    requestOverheadUs: 12000,
  },
};
