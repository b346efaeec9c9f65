/**
 * llama-3.1-70b, fp8, 2 × B200, vllm 0.24.0. Times in microseconds; the form is in `../timing.ts`.
 * Source: aiconfigurator-core 0.12.0 (operator database),
 * systems/data/b200_sxm/{gemm,attention,comm,moe}/vllm/0.24.0/*.parquet, model config meta-llama--Meta-Llama-3.1-70B.
 * Mixed steps are within 2.5 % of the source (mean 1.0 %); calibrated on 10 measured points (TPOT); uncalibrated, TPOT was 1.118 and TTFT 0.71 of the measured, median.
 * Request overhead: of 0 to 15 ms what brings TTFT nearest to the measured points (docs/timing.md).
 */
import type { Profile } from "../timing/profile.ts";
import { LINEAR_TOKENS } from "./grid.ts";

export const profile: Profile = {
  name: "llama-3.1-70b-fp8-b200-tp2-vllm",
  model: "llama-3.1-70b",
  gpu: "b200",
  tp: 2,
  precision: "fp8",
  engine: "vllm 0.24.0",
  gpuMemoryBytes: 193273528320,
  kvBytesPerToken: 327680,
  poolTokens: 846381,
  valid: { tokensPerStep: [1, 16384], prefixTokens: [0, 16384], sequences: [1, 256], contextEach: [128, 16384] },
  timing: {
    kind: "table",
    name: "llama-3.1-70b-fp8-b200-tp2-vllm",
    linearTokens: LINEAR_TOKENS,
    linearUs: [
      15260, 10430, 11160, 10990, 10730, 11380, 11290, 10620, 10660, 12090, 11810, 13430, 11670, 12190, 12660, 14350,
      13120, 13370, 13370, 13940, 17030, 17330, 17820, 17500, 18340, 17910, 18620, 20140, 23600, 28700, 32180, 35540,
      40880, 43590, 49120, 52910, 57380, 61410, 68730, 70210, 75600, 76300, 81790, 89060, 92190, 98730, 101600, 104900,
      110300, 115000, 118200, 125000, 133400, 130000, 136800, 139900, 144200, 149600, 159700, 168400, 173900, 315200,
      672400,
    ],
    prefill: { baseUs: 1311, newUs: 1.784, prefixUs: 0, pairsUs: 0.0009099 },
    decode: { baseUs: 701.2, seqUs: 0.7949, ctxUs: 0.02328 },
    sharedBase: false,
    scale: 0.8972,
    overheadUs: 0,
    requestOverheadUs: 15000,
  },
};
