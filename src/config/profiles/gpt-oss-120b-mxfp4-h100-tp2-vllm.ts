/**
 * gpt-oss-120b, mxfp4, 2 × H100, vllm 0.24.0. Times in microseconds; the form is in `../timing.ts`.
 * Source: aiconfigurator-core 0.12.0 (operator database),
 * systems/data/h100_sxm/{gemm,attention,comm,moe}/vllm/0.24.0/*.parquet, model config openai--gpt-oss-120b.
 * Mixed steps are within 1.1 % of the source (mean 0.4 %); calibrated on 13 measured points (TPOT); uncalibrated, TPOT was 0.958 and TTFT 0.518 of the measured, median.
 * KV: half of the layers use a 128-token window: a hybrid allocator needs about half of bytes_per_token at long context.
 * Request overhead: of 0 to 15 ms what brings TTFT nearest to the measured points (docs/timing.md).
 */
import type { Profile } from "../timing/profile.ts";
import { LINEAR_TOKENS } from "./grid.ts";

export const profile: Profile = {
  name: "gpt-oss-120b-mxfp4-h100-tp2-vllm",
  model: "gpt-oss-120b",
  gpu: "h100",
  tp: 2,
  precision: "mxfp4",
  engine: "vllm 0.24.0",
  gpuMemoryBytes: 85899345920,
  kvBytesPerToken: 73728,
  poolTokens: 1225841,
  valid: { tokensPerStep: [1, 16384], prefixTokens: [0, 16384], sequences: [1, 256], contextEach: [128, 16384] },
  timing: {
    kind: "table",
    name: "gpt-oss-120b-mxfp4-h100-tp2-vllm",
    linearTokens: LINEAR_TOKENS,
    linearUs: [
      3035, 3258, 3771, 4271, 5618, 7112, 7199, 8572, 8761, 11690, 11740, 12340, 12410, 12910, 12930, 13200, 13250,
      13760, 13790, 14300, 14320, 14890, 14910, 16170, 16200, 16730, 16760, 17190, 17320, 24170, 24160, 27690, 27760,
      32510, 32620, 35500, 35310, 38110, 38090, 41310, 41380, 44670, 44670, 48150, 48050, 51570, 51290, 54670, 54780,
      58130, 58020, 60420, 60540, 63440, 63190, 65700, 65640, 67980, 68110, 70980, 70940, 111800, 194000,
    ],
    prefill: { baseUs: 612.6, newUs: 0.4438, prefixUs: 0, pairsUs: 0.0002776 },
    decode: { baseUs: 432.3, seqUs: 3.481, ctxUs: 0.006007 },
    sharedBase: false,
    scale: 1.061,
    overheadUs: 0,
    requestOverheadUs: 15000,
  },
};
