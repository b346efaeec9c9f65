/**
 * llama-3.1-70b, fp8, 4 × H100, vllm 0.24.0. Times in microseconds; the form is in `../timing.ts`.
 * Source: aiconfigurator-core 0.12.0 (operator database),
 * systems/data/h100_sxm/{gemm,attention,comm,moe}/vllm/0.24.0/*.parquet, model config meta-llama--Meta-Llama-3.1-70B.
 * Mixed steps are within 1.3 % of the source (mean 0.6 %); calibrated on 10 measured points (TPOT); uncalibrated, TPOT was 0.938 and TTFT 0.907 of the measured, median.
 * Request overhead: of 0 to 15 ms what brings TTFT nearest to the measured points (docs/timing.md).
 */
import type { Profile } from "../timing/profile.ts";
import { LINEAR_TOKENS } from "./grid.ts";

export const profile: Profile = {
  name: "llama-3.1-70b-fp8-h100-tp4-vllm",
  model: "llama-3.1-70b",
  gpu: "h100",
  tp: 4,
  precision: "fp8",
  engine: "vllm 0.24.0",
  gpuMemoryBytes: 85899345920,
  kvBytesPerToken: 327680,
  poolTokens: 728416,
  valid: { tokensPerStep: [1, 16384], prefixTokens: [0, 16384], sequences: [1, 256], contextEach: [128, 16384] },
  timing: {
    kind: "table",
    name: "llama-3.1-70b-fp8-h100-tp4-vllm",
    linearTokens: LINEAR_TOKENS,
    linearUs: [
      10030, 9515, 9550, 9902, 9766, 10070, 10830, 11420, 11540, 11420, 11470, 11710, 12670, 12630, 12930, 13030, 13300,
      13360, 13380, 13780, 18090, 18160, 18340, 17880, 17940, 17870, 17800, 18310, 30060, 28300, 43690, 40980, 58450,
      54270, 70080, 69230, 84090, 80660, 94590, 94720, 110500, 106100, 124500, 120400, 138500, 133500, 150800, 144000,
      163100, 154800, 171900, 168400, 183300, 180600, 196400, 190700, 211000, 201700, 222000, 219500, 238700, 361500,
      763700,
    ],
    prefill: { baseUs: 1312, newUs: 1.199, prefixUs: 0, pairsUs: 0.0008871 },
    decode: { baseUs: 949.8, seqUs: 2.221, ctxUs: 0.02646 },
    sharedBase: false,
    scale: 1.0664,
    overheadUs: 0,
    requestOverheadUs: 0,
  },
};
