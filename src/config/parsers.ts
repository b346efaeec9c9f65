/** Which of vLLM's parsers of answers are there? */

/** `--reasoning-parser`. */
export const REASONING_PARSERS = ["deepseek_r1", "qwen3"] as const;
export type ReasoningName = (typeof REASONING_PARSERS)[number];
