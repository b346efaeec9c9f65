/** How are the dialects of metrics called? */

export const dialectNames = ["vllm", "triton", "trtllm", "understudy"] as const;
export type MetricsDialectName = (typeof dialectNames)[number];
