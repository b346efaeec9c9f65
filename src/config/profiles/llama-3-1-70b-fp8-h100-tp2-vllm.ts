/**
 * llama-3.1-70b, fp8, 2 × H100, vllm 0.24.0. Times in microseconds; the form is in `../timing.ts`.
 * Source: aiconfigurator-core 0.12.0 (operator database),
 * systems/data/h100_sxm/{gemm,attention,comm,moe}/vllm/0.24.0/*.parquet, model config meta-llama--Meta-Llama-3.1-70B.
 * Mixed steps are within 1.1 % of the source (mean 0.5 %); calibrated on 8 measured points (TPOT); uncalibrated, TPOT was 0.98 and TTFT 0.835 of the measured, median.
 * Request overhead: of 0 to 15 ms what brings TTFT nearest to the measured points (docs/timing.md).
 */
import type { Profile } from "../timing/profile.ts";
import { LINEAR_TOKENS } from "./grid.ts";

export const profile: Profile = {
  name: "llama-3.1-70b-fp8-h100-tp2-vllm",
  model: "llama-3.1-70b",
  gpu: "h100",
  tp: 2,
  precision: "fp8",
  engine: "vllm 0.24.0",
  gpuMemoryBytes: 85899345920,
  kvBytesPerToken: 327680,
  poolTokens: 256557,
  valid: { tokensPerStep: [1, 16384], prefixTokens: [0, 16384], sequences: [1, 256], contextEach: [128, 16384] },
  timing: {
    kind: "table",
    name: "llama-3.1-70b-fp8-h100-tp2-vllm",
    linearTokens: LINEAR_TOKENS,
    linearUs: [
      16030, 15940, 16290, 16660, 16230, 16080, 17120, 16740, 17290, 17220, 17500, 17490, 19160, 18720, 19170, 19190,
      18810, 19750, 19560, 19370, 28220, 27210, 27530, 25450, 25440, 24590, 24450, 23970, 47880, 41430, 69840, 60300,
      90570, 80460, 109200, 104100, 134900, 121600, 145500, 140600, 175300, 157800, 200500, 182000, 219000, 204900,
      249200, 221100, 265900, 240500, 278900, 262600, 299000, 281300, 312200, 298400, 344800, 316800, 364400, 345200,
      393500, 541600, 1151000,
    ],
    prefill: { baseUs: 1326, newUs: 1.862, prefixUs: 0, pairsUs: 0.001876 },
    decode: { baseUs: 930.8, seqUs: 5.172, ctxUs: 0.05243 },
    sharedBase: false,
    scale: 1.014,
    overheadUs: 0,
    requestOverheadUs: 12000,
  },
};
