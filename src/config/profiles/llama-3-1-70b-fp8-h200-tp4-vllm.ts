/**
 * llama-3.1-70b, fp8, 4 × H200, vllm 0.24.0. Times in microseconds; the form is in `../timing.ts`.
 * Source: aiconfigurator-core 0.12.0 (operator database),
 * systems/data/h200_sxm/{gemm,attention,comm,moe}/vllm/0.24.0/*.parquet, model config meta-llama--Meta-Llama-3.1-70B.
 * Mixed steps are within 1.6 % of the source (mean 0.7 %); calibrated on 10 measured points (TPOT); uncalibrated, TPOT was 0.973 and TTFT 0.814 of the measured, median.
 * Request overhead: of 0 to 15 ms what brings TTFT nearest to the measured points (docs/timing.md).
 */
import type { Profile } from "../timing/profile.ts";
import { LINEAR_TOKENS } from "./grid.ts";

export const profile: Profile = {
  name: "llama-3.1-70b-fp8-h200-tp4-vllm",
  model: "llama-3.1-70b",
  gpu: "h200",
  tp: 4,
  precision: "fp8",
  engine: "vllm 0.24.0",
  gpuMemoryBytes: 151397597184,
  kvBytesPerToken: 327680,
  poolTokens: 1448002,
  valid: { tokensPerStep: [1, 16384], prefixTokens: [0, 16384], sequences: [1, 256], contextEach: [128, 16384] },
  timing: {
    kind: "table",
    name: "llama-3.1-70b-fp8-h200-tp4-vllm",
    linearTokens: LINEAR_TOKENS,
    linearUs: [
      8171, 8332, 8159, 8291, 8441, 8509, 10340, 10470, 10500, 9953, 9829, 10120, 11920, 11380, 11530, 11450, 11500,
      11580, 11670, 11880, 17550, 17480, 17550, 16800, 16920, 16550, 16470, 16830, 30420, 26290, 42700, 37290, 51350,
      48920, 66860, 62450, 81600, 72550, 89010, 85020, 102800, 94450, 117100, 108100, 124800, 119700, 137600, 129200,
      146900, 138900, 154200, 151700, 168100, 163100, 180000, 171700, 189800, 182600, 199000, 196400, 218400, 346600,
      718600,
    ],
    prefill: { baseUs: 1300, newUs: 1.284, prefixUs: 0, pairsUs: 0.0008866 },
    decode: { baseUs: 1005, seqUs: 2.592, ctxUs: 0.01883 },
    sharedBase: false,
    scale: 1.0301,
    overheadUs: 0,
    requestOverheadUs: 8000,
  },
};
