/**
 * llama-3.1-8b (nvidia/Llama-3.1-8B-Instruct-FP8), fp8, 1 × H200, vllm, disaggregated prefill and decode workers.
 * Times in microseconds; the form is in `../timing.ts`. Source: ai-dynamo 1.6.1,
 * dynamo/planner/tests/data/profiling_results/H200_TP1P_TP1D/{selected_prefill_interpolation,selected_decode_interpolation}/raw_data.npz.
 * Prefill and decode were profiled on workers of their own: that a mixed step pays the larger base once is an assumption.
 * What a prompt's first token took beyond the decode base (18550 - 4452.4) is API, tokenizer and scheduling: overhead of the
 * request and of no step, so that decodes which share the step do not pay for it.
 * Error, mean and largest: prefill 2.6 / 9 %, decode 6.5 / 33 % (above 1,000 sequences). Pool: the profile's own `max_kv_tokens`.
 */
import type { Profile } from "../timing/profile.ts";

export const profile: Profile = {
  name: "llama-3.1-8b-fp8-h200-tp1-dynamo-profile",
  model: "llama-3.1-8b",
  hub: "nvidia/Llama-3.1-8B-Instruct-FP8",
  gpu: "h200",
  tp: 1,
  precision: "fp8",
  engine: "vllm (version not stated), disaggregated",
  gpuMemoryBytes: 151397597184,
  kvBytesPerToken: 131072,
  poolTokens: 945029,
  valid: { tokensPerStep: [100, 16372], prefixTokens: [0, 0], sequences: [1, 1573], contextEach: [350, 13585] },
  timing: {
    kind: "table",
    name: "llama-3.1-8b-fp8-h200-tp1-dynamo-profile",
    linearTokens: [1],
    linearUs: [0],
    prefill: { baseUs: 4452.4, newUs: 14.109, prefixUs: 0, pairsUs: 0.0009838 },
    decode: { baseUs: 4452.4, seqUs: 22.245, ctxUs: 0.031596 },
    sharedBase: true,
    scale: 1,
    overheadUs: 0,
    requestOverheadUs: 14097.6,
  },
};
