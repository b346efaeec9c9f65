/** Step times of Llama 3.1 8B. `measured.ts` explains sources and comments. */
import type { Profile } from "../profile.ts";
import { preset } from "./measured.ts";

export const llama8b: readonly Profile[] = [
  /** Data: a100_sxm, vllm 0.14.0. Mixed steps: within 5.6 %, mean 1.5 %. Not calibrated. */
  preset("llama-3.1-8b-bf16-a100-tp1-vllm", {
    engine: "vllm 0.14.0",
    poolTokens: 467295,
    linearUs: [
      11220, 11080, 10990, 10890, 11260, 11340, 11360, 11620, 11630, 11710, 11710, 11620, 11750, 13620, 13600, 13370,
      13380, 13520, 13530, 13670, 13870, 20030, 20100, 21040, 21050, 21220, 21230, 21400, 21430, 34230, 34290, 47630,
      47690, 61210, 61260, 74920, 74970, 88620, 88670, 102300, 102400, 116000, 116100, 130300, 130300, 144500, 144500,
      158700, 158700, 172900, 172900, 187000, 187100, 201200, 201200, 215300, 215400, 229500, 229500, 243700, 243800,
      456700, 914200,
    ],
    prefill: { baseUs: 559.8, newUs: 1.531, pairsUs: 0.002845 },
    decode: { baseUs: 659.7, seqUs: 0, ctxUs: 0.08458 },
    requestOverheadUs: 12000,
  }),
  /** Data: h100_sxm, vllm 0.24.0. Mixed steps: within 2.9 %, mean 1.3 %. Not calibrated. */
  preset("llama-3.1-8b-bf16-h100-tp1-vllm", {
    engine: "vllm 0.24.0",
    poolTokens: 467295,
    linearUs: [
      5746, 5950, 6012, 6095, 6001, 6353, 6206, 6369, 6236, 5980, 6112, 6516, 6273, 6306, 6338, 6393, 6393, 6515, 6739,
      6701, 6786, 6696, 7279, 7307, 7201, 7660, 7692, 7745, 8156, 10890, 11490, 15330, 15710, 20550, 21340, 25510,
      25330, 29810, 30830, 35950, 35000, 40240, 40960, 43700, 46120, 50790, 51060, 56090, 58280, 60100, 61260, 67190,
      68310, 72590, 72110, 77800, 76630, 81190, 83300, 89850, 88210, 170100, 333900,
    ],
    prefill: { baseUs: 538.7, newUs: 0.7717, pairsUs: 0.0007346 },
    decode: { baseUs: 422.9, seqUs: 3.659, ctxUs: 0.04151 },
    requestOverheadUs: 12000,
  }),
  /**
   * Measured on nvidia/Llama-3.1-8B-Instruct-FP8. Source: ai-dynamo 1.6.1,
   * dynamo/planner/tests/data/profiling_results/H200_TP1P_TP1D/{selected_prefill_interpolation,selected_decode_interpolation}/raw_data.npz.
   * Prefill and decode were profiled on separate workers. That a mixed step only pays the larger base is an assumption.
   * The part of a first token's time above the decode base (18550 - 4452.4) is API, tokenizer and scheduling. It is an
   * overhead of the request and not of steps, so that decodes in the same step do not pay it. Error, mean and largest:
   * prefill 2.6 / 9 %, decode 6.5 / 33 % (above 1,000 sequences). Pool: the profile's own `max_kv_tokens`.
   */
  {
    ...preset("llama-3.1-8b-fp8-h200-tp1-dynamo-profile", {
      engine: "vllm (version not stated), disaggregated",
      poolTokens: 945029,
      linearTokens: [1],
      linearUs: [0],
      prefill: { baseUs: 4452.4, newUs: 14.109, pairsUs: 0.0009838 },
      decode: { baseUs: 4452.4, seqUs: 22.245, ctxUs: 0.031596 },
      sharedBase: true,
      requestOverheadUs: 14097.6,
    }),
    hub: "nvidia/Llama-3.1-8B-Instruct-FP8",
    valid: { tokensPerStep: [100, 16372], prefixTokens: [0, 0], sequences: [1, 1573], contextEach: [350, 13585] },
  },
  /** Data: h200_sxm, vllm 0.24.0. Mixed steps: within 2.5 %, mean 1.3 %. Not calibrated. */
  preset("llama-3.1-8b-fp8-h200-tp1-vllm", {
    engine: "vllm 0.24.0",
    poolTokens: 978300,
    linearUs: [
      3344, 3241, 3275, 3282, 3352, 3314, 4166, 3830, 3855, 3522, 3520, 3513, 4404, 4136, 4148, 4066, 4042, 3992, 4057,
      4022, 6225, 5870, 5973, 5542, 5575, 5384, 5367, 5426, 10810, 7552, 14130, 11380, 16750, 13350, 21660, 18170,
      26710, 20680, 26920, 23960, 29910, 25950, 35910, 31100, 39460, 34570, 43270, 37590, 45410, 40090, 48500, 44730,
      49830, 46750, 55390, 50040, 55430, 51660, 58730, 56210, 62930, 100300, 203300,
    ],
    prefill: { baseUs: 535.5, newUs: 0.7431, pairsUs: 0.0007498 },
    decode: { baseUs: 420.2, seqUs: 4.09, ctxUs: 0.0296 },
    requestOverheadUs: 12000,
  }),
  /** Data: l40s, vllm 0.24.0. Mixed steps: within 4.2 %, mean 1.6 %. Not calibrated. */
  preset("llama-3.1-8b-fp8-l40s-tp1-vllm", {
    engine: "vllm 0.24.0",
    poolTokens: 270425,
    linearUs: [
      13680, 13310, 13020, 13470, 13640, 13450, 14110, 13990, 14340, 14560, 14270, 14230, 14860, 15150, 15560, 15360,
      15490, 15180, 15820, 15850, 16480, 16630, 16700, 17290, 17440, 17740, 18050, 18170, 19880, 25630, 34490, 40750,
      42700, 49290, 54840, 61150, 67020, 72790, 74960, 86590, 88270, 95680, 99120, 108900, 110900, 116900, 124700,
      131100, 138500, 144500, 144500, 152700, 157400, 170500, 174900, 182000, 183800, 194300, 195000, 202500, 211700,
      403000, 804800,
    ],
    prefill: { baseUs: 579.5, newUs: 0.9546, pairsUs: 0.002682 },
    decode: { baseUs: 44.78, seqUs: 2.454, ctxUs: 0.1905 },
    requestOverheadUs: 12000,
  }),
];
