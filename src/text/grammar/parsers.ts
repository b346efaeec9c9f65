/**
 * Names of parsers that `--tool-call-parser` and `--reasoning-parser` accept, and the format that this server writes for each.
 * Sources: `vllm/tool_parsers/__init__.py` and `vllm/reasoning/__init__.py` (0.33.0, and the main branch before it, which has
 * `solar_open2`); `tensorrt_llm/serve/tool_parser/` and `llmapi/reasoning_parser.py` (1.3 line).
 */

/** Formats of tool calls that answers can have. `src/servers/openai/tool-calls/` has a parser for each. */
export const TOOL_FORMATS = [
  "hermes",
  "llama3_json",
  "mistral",
  "qwen3_coder",
  "deepseek_v4",
  "gemma4",
  "glm47",
  "hy_v3",
  "kimi_k2",
  "lfm2",
  "minimax_m2",
  "minimax_m3",
  "openai",
  "poolside_v1",
] as const;
export type ToolFormat = (typeof TOOL_FORMATS)[number];

/** Formats of reasoning that answers can have. */
const REASONING_FORMATS = [
  "deepseek_r1",
  "qwen3",
  "deepseek_v4",
  "gemma4",
  "glm47",
  "hy_v3",
  "kimi_k2",
  "minimax_m2",
  "minimax_m3",
  "openai_gptoss",
  "poolside_v1",
  "step3p5",
] as const;
export type ReasoningFormat = (typeof REASONING_FORMATS)[number];

/** Names of the field of messages and deltas that holds reasoning (`--reasoning-field`). */
export const REASONING_FIELDS = ["reasoning", "reasoning_content", "both"] as const;
export type ReasoningField = (typeof REASONING_FIELDS)[number];

/** The meaning of a parser's name. */
export interface RegisteredParser<F extends string> {
  /** The format of the generated text, and the parser that reads it. */
  readonly format: F;
  /** True if clients see the output of the real parser. False if the real parser reads another format. */
  readonly exact: boolean;
}

export type Registry<F extends string> = ReadonlyMap<string, RegisteredParser<F>>;

/** Makes a registry. `formats`: names that are formats. `exact`: other names, by format. `standIn`: names of other formats. */
function registry<F extends string>(
  formats: readonly F[],
  exact: Partial<Record<F, string>>,
  standIn: Partial<Record<F, string>>,
): Registry<F> {
  const entries = new Map<string, RegisteredParser<F>>(formats.map((format) => [format, { format, exact: true }]));
  for (const [names, isExact] of [
    [exact, true],
    [standIn, false],
  ] as const)
    for (const [format, list] of Object.entries(names) as [F, string][])
      for (const name of list.split(" ")) entries.set(name, { format, exact: isExact });
  return new Map([...entries].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Names of `--tool-call-parser` of vLLM. */
export const TOOL_PARSERS = registry(
  TOOL_FORMATS,
  {
    hermes: "qwen3_json",
    llama3_json: "llama4_json",
    qwen3_coder: "mimo qwen3_xml seed_oss step3p5",
    deepseek_v4: "deepseek_v32",
    glm47: "glm45",
  },
  {
    hermes:
      "apertus beam cohere_command3 cohere_command4 deepseek_v3 deepseek_v31 dots ernie45 functiongemma gigachat3 granite granite-20b-fc granite4 hf hunyuan_a13b inkling internlm jamba k2_horizon longcat minicpm5 muse muse_glimmer musespark1x phi4_mini_json plamo3 solar_open2 step3 step5 xlam",
    deepseek_v4: "deepseek_v41",
    glm47: "ling3",
    hy_v3: "hy_v4",
    kimi_k2: "kimi_k3",
    lfm2: "llama4_pythonic olmo3 pythonic",
  },
);

/** Names of `--reasoning-parser` of vLLM. */
export const REASONING_PARSERS = registry(
  REASONING_FORMATS,
  {
    deepseek_r1: "step5",
    qwen3: "mimo seed_oss",
    glm47: "glm45",
    poolside_v1: "deepseek_v3",
  },
  {
    deepseek_r1:
      "beam cohere_command3 cohere_command4 ernie45 granite granite_thinking_parser hf holo2 hunyuan_a13b inkling k2_horizon ling3 minicpmv minimax_m2_append_think mistral muse muse_glimmer musespark1x olmo3 plamo3 solar_open2 step3",
    step3p5: "nemotron_v3",
    deepseek_v4: "deepseek_v41",
    hy_v3: "hy_v4",
    kimi_k2: "kimi_k3",
  },
);

/** Names of `--tool_parser` of trtllm-serve. Except for `qwen3`, its parsers split streams differently. */
export const TRTLLM_TOOL_PARSERS = registry<ToolFormat>(
  [],
  { hermes: "qwen3" },
  {
    hermes: "deepseek_v3 deepseek_v31 glm4 inkling telechat4 xing4_0 xingchen4",
    deepseek_v4: "deepseek_v32 deepseek_v4 deepseek_v41",
    gemma4: "gemma4",
    glm47: "glm47",
    kimi_k2: "kimi_k2 kimi_k3",
    minimax_m2: "minimax_m2",
    minimax_m3: "minimax_m3",
    poolside_v1: "poolside_v1",
    qwen3_coder: "qwen3_coder",
  },
);

/** Names of `--reasoning_parser` of trtllm-serve. */
export const TRTLLM_REASONING_PARSERS = registry<ReasoningFormat>(
  [],
  { deepseek_r1: "deepseek-r1", qwen3: "qwen3" },
  {
    deepseek_r1: "kimi_k25 minimax_m2 minimax_m2_append_think nano-v3 nemotron-v3 qwen3_5",
    deepseek_v4: "deepseek_v4",
    gemma4: "gemma4",
    kimi_k2: "kimi_k2 kimi_k3",
    minimax_m3: "minimax_m3",
    poolside_v1: "laguna poolside_v1",
  },
);
