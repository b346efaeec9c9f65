/**
 * llama-3.1-70b, fp8, 4 × H200, tensorrt-llm 1.3.0rc20. Times in microseconds; the form is in `../timing.ts`.
 * Source: aiconfigurator-core 0.12.0 (operator database),
 * systems/data/h200_sxm/{gemm,attention,comm,moe}/trtllm/1.3.0rc20/*.parquet, model config meta-llama--Meta-Llama-3.1-70B.
 * Mixed steps are within 3.7 % of the source (mean 1.4 %); calibrated on 10 measured points (TPOT); uncalibrated, TPOT was 1.318 and TTFT 0.924 of the measured, median.
 * Request overhead: of 0 to 15 ms what brings TTFT nearest to the measured points (docs/timing.md).
 */
import type { Profile } from "../timing/profile.ts";
import { LINEAR_TOKENS } from "./grid.ts";

export const profile: Profile = {
  name: "llama-3.1-70b-fp8-h200-tp4-trtllm",
  model: "llama-3.1-70b",
  gpu: "h200",
  tp: 4,
  precision: "fp8",
  engine: "tensorrt-llm 1.3.0rc20",
  gpuMemoryBytes: 151397597184,
  kvBytesPerToken: 327680,
  poolTokens: 1448002,
  valid: { tokensPerStep: [1, 16384], prefixTokens: [0, 16384], sequences: [1, 256], contextEach: [128, 16384] },
  timing: {
    kind: "table",
    name: "llama-3.1-70b-fp8-h200-tp4-trtllm",
    linearTokens: LINEAR_TOKENS,
    linearUs: [
      9780, 9794, 9881, 9959, 10070, 10420, 10440, 10960, 11120, 11570, 11630, 12190, 12200, 12700, 12620, 13240, 13290,
      13790, 14000, 14280, 14620, 15460, 15650, 16970, 16530, 17830, 17740, 18800, 19150, 29550, 30340, 40870, 41740,
      52120, 52760, 63490, 64250, 73780, 74770, 84440, 85980, 95590, 96470, 106400, 110200, 118100, 117900, 130400,
      132500, 138600, 140300, 152300, 150200, 162300, 161900, 173400, 173800, 182900, 183300, 194900, 194200, 353800,
      699100,
    ],
    prefill: { baseUs: 1346, newUs: 2.129, prefixUs: 0, pairsUs: 0.001059 },
    decode: { baseUs: 1156, seqUs: 4.569, ctxUs: 0.01963 },
    sharedBase: false,
    scale: 0.7578,
    overheadUs: 0,
    requestOverheadUs: 15000,
  },
};
