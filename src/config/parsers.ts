/** Which of vLLM's parsers of answers are there? */

/** `--reasoning-parser`. */
export const REASONING_PARSERS = ["deepseek_r1", "qwen3"] as const;
export type ReasoningName = (typeof REASONING_PARSERS)[number];

/** `--tool-call-parser`. */
export const TOOL_PARSERS = ["hermes", "llama3_json", "mistral", "qwen3_coder"] as const;
export type ToolParserName = (typeof TOOL_PARSERS)[number];
