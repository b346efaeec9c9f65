/** Names of the metrics dialects. */

export const dialectNames = ["vllm", "triton", "trtllm", "understudy"] as const;
export type MetricsDialectName = (typeof dialectNames)[number];
