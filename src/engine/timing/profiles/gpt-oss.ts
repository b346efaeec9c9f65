/** Step times of gpt-oss. `measured.ts` explains sources and comments. */
import type { Profile } from "../profile.ts";
import { preset } from "./measured.ts";

export const gptOss: readonly Profile[] = [
  /**
   * Data: h100_sxm, vllm 0.24.0. Mixed steps: within 1.1 %, mean 0.4 %. Calibrated on 13 points; before, TPOT was 0.958, TTFT 0.518.
   * Half of the layers use a 128-token window: a hybrid allocator needs about half of bytes_per_token at long context.
   */
  preset("gpt-oss-120b-mxfp4-h100-tp2-vllm", {
    engine: "vllm 0.24.0",
    poolTokens: 1225841,
    linearUs: [
      3035, 3258, 3771, 4271, 5618, 7112, 7199, 8572, 8761, 11690, 11740, 12340, 12410, 12910, 12930, 13200, 13250,
      13760, 13790, 14300, 14320, 14890, 14910, 16170, 16200, 16730, 16760, 17190, 17320, 24170, 24160, 27690, 27760,
      32510, 32620, 35500, 35310, 38110, 38090, 41310, 41380, 44670, 44670, 48150, 48050, 51570, 51290, 54670, 54780,
      58130, 58020, 60420, 60540, 63440, 63190, 65700, 65640, 67980, 68110, 70980, 70940, 111800, 194000,
    ],
    prefill: { baseUs: 612.6, newUs: 0.4438, pairsUs: 0.0002776 },
    decode: { baseUs: 432.3, seqUs: 3.481, ctxUs: 0.006007 },
    scale: 1.061,
    requestOverheadUs: 15000,
  }),
];
