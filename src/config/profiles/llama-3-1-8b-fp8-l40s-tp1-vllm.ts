/**
 * llama-3.1-8b, fp8, 1 × L40S, vllm 0.24.0. Times in microseconds; the form is in `../timing.ts`.
 * Source: aiconfigurator-core 0.12.0 (operator database),
 * systems/data/l40s/{gemm,attention,comm,moe}/vllm/0.24.0/*.parquet, model config meta-llama--Meta-Llama-3.1-8B.
 * Mixed steps are within 4.2 % of the source (mean 1.6 %); not calibrated: no measured points.
 * Request overhead: not measured here; what such an engine's API server and tokenizer take elsewhere (docs/timing.md).
 */
import type { Profile } from "../timing/profile.ts";
import { LINEAR_TOKENS } from "./grid.ts";

export const profile: Profile = {
  name: "llama-3.1-8b-fp8-l40s-tp1-vllm",
  model: "llama-3.1-8b",
  gpu: "l40s",
  tp: 1,
  precision: "fp8",
  engine: "vllm 0.24.0",
  gpuMemoryBytes: 48305799168,
  kvBytesPerToken: 131072,
  poolTokens: 270425,
  valid: { tokensPerStep: [1, 16384], prefixTokens: [0, 16384], sequences: [1, 256], contextEach: [128, 16384] },
  timing: {
    kind: "table",
    name: "llama-3.1-8b-fp8-l40s-tp1-vllm",
    linearTokens: LINEAR_TOKENS,
    linearUs: [
      13680, 13310, 13020, 13470, 13640, 13450, 14110, 13990, 14340, 14560, 14270, 14230, 14860, 15150, 15560, 15360,
      15490, 15180, 15820, 15850, 16480, 16630, 16700, 17290, 17440, 17740, 18050, 18170, 19880, 25630, 34490, 40750,
      42700, 49290, 54840, 61150, 67020, 72790, 74960, 86590, 88270, 95680, 99120, 108900, 110900, 116900, 124700,
      131100, 138500, 144500, 144500, 152700, 157400, 170500, 174900, 182000, 183800, 194300, 195000, 202500, 211700,
      403000, 804800,
    ],
    prefill: { baseUs: 579.5, newUs: 0.9546, prefixUs: 0, pairsUs: 0.002682 },
    decode: { baseUs: 44.78, seqUs: 2.454, ctxUs: 0.1905 },
    sharedBase: false,
    scale: 1,
    overheadUs: 0,
    requestOverheadUs: 12000,
  },
};
