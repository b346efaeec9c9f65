/**
 * qwen3-32b, bf16, 2 × H100, vllm 0.24.0. Times in microseconds; the form is in `../timing.ts`.
 * Source: aiconfigurator-core 0.12.0 (operator database),
 * systems/data/h100_sxm/{gemm,attention,comm,moe}/vllm/0.24.0/*.parquet, model config Qwen--Qwen3-32B.
 * Mixed steps are within 1.9 % of the source (mean 0.7 %); not calibrated: no measured points.
 * Request overhead: not measured here; what such an engine's API server and tokenizer take elsewhere (docs/timing.md).
 */
import type { Profile } from "../timing/profile.ts";
import { LINEAR_TOKENS } from "./grid.ts";

export const profile: Profile = {
  name: "qwen3-32b-bf16-h100-tp2-vllm",
  model: "qwen3-32b",
  gpu: "h100",
  tp: 2,
  precision: "bf16",
  engine: "vllm 0.24.0",
  gpuMemoryBytes: 85899345920,
  kvBytesPerToken: 262144,
  poolTokens: 339885,
  valid: { tokensPerStep: [1, 16384], prefixTokens: [0, 16384], sequences: [1, 256], contextEach: [128, 16384] },
  timing: {
    kind: "table",
    name: "qwen3-32b-bf16-h100-tp2-vllm",
    linearTokens: LINEAR_TOKENS,
    linearUs: [
      12530, 12850, 12670, 12650, 12940, 14030, 13800, 13860, 13490, 14150, 14110, 14930, 14850, 14120, 14190, 14530,
      14740, 15400, 14910, 15410, 15650, 15690, 15670, 16200, 16670, 17050, 16780, 18080, 17300, 26160, 27490, 38730,
      40390, 50730, 60640, 64990, 65520, 74460, 74490, 89930, 86990, 99320, 100900, 111000, 115900, 125800, 127000,
      146300, 144000, 153700, 153700, 163500, 171200, 181100, 180900, 197000, 189600, 204600, 203100, 221600, 217500,
      416600, 827900,
    ],
    prefill: { baseUs: 2763, newUs: 1.449, prefixUs: 0, pairsUs: 0.001508 },
    decode: { baseUs: 746.7, seqUs: 4.178, ctxUs: 0.04193 },
    sharedBase: false,
    scale: 1,
    overheadUs: 0,
    requestOverheadUs: 12000,
  },
};
