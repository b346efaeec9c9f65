/**
 * llama-3.1-70b, fp8, 8 × H100, vllm 0.24.0. Times in microseconds; the form is in `../timing.ts`.
 * Source: aiconfigurator-core 0.12.0 (operator database),
 * systems/data/h100_sxm/{gemm,attention,comm,moe}/vllm/0.24.0/*.parquet, model config meta-llama--Meta-Llama-3.1-70B.
 * Mixed steps are within 2.3 % of the source (mean 1.1 %); calibrated on 10 measured points (TPOT); uncalibrated, TPOT was 0.906 and TTFT 0.913 of the measured, median.
 * Request overhead: of 0 to 15 ms what brings TTFT nearest to the measured points (docs/timing.md).
 */
import type { Profile } from "../timing/profile.ts";
import { LINEAR_TOKENS } from "./grid.ts";

export const profile: Profile = {
  name: "llama-3.1-70b-fp8-h100-tp8-vllm",
  model: "llama-3.1-70b",
  gpu: "h100",
  tp: 8,
  precision: "fp8",
  engine: "vllm 0.24.0",
  gpuMemoryBytes: 85899345920,
  kvBytesPerToken: 327680,
  poolTokens: 1672135,
  valid: { tokensPerStep: [1, 16384], prefixTokens: [0, 16384], sequences: [1, 256], contextEach: [128, 16384] },
  timing: {
    kind: "table",
    name: "llama-3.1-70b-fp8-h100-tp8-vllm",
    linearTokens: LINEAR_TOKENS,
    linearUs: [
      6772, 6709, 6755, 7025, 7418, 7954, 7982, 8170, 8337, 8458, 8745, 8852, 9686, 9722, 9752, 9989, 10030, 10230,
      10220, 10530, 13190, 13700, 13840, 13800, 13940, 14000, 14080, 14680, 19490, 22120, 29240, 30700, 39410, 39630,
      48500, 49950, 57760, 59380, 64580, 66930, 76600, 75810, 84060, 85840, 93670, 95420, 107200, 104500, 115800,
      113000, 120300, 122900, 128600, 130100, 141500, 139100, 151400, 147300, 158500, 160300, 167100, 258800, 513800,
    ],
    prefill: { baseUs: 1324, newUs: 1.025, prefixUs: 0, pairsUs: 0.0004098 },
    decode: { baseUs: 983.7, seqUs: 0.7426, ctxUs: 0.01336 },
    sharedBase: false,
    scale: 1.0491,
    overheadUs: 609,
    requestOverheadUs: 0,
  },
};
