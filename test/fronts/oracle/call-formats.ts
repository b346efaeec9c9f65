/**
 * Tool calls in the formats whose parsers vLLM's issues name: what the same tokens give must not depend on how they fall into
 * steps (vllm#55079). Sources of the formats: `vllm/tool_parsers/`, vLLM 0.33.0.
 */

export interface CallFormat {
  /** Name of the parser. */
  readonly parser: string;
  readonly issue: string;
  readonly marks: readonly string[];
  /** One call, and two of them. A format that takes one call has text before it instead. */
  readonly answers: readonly [string, string];
}

const json = (city: string, key: string) => `{"name": "get_weather", "${key}": {"city": "${city}"}}`;
const DEEPSEEK = [
  "<｜tool▁calls▁begin｜>",
  "<｜tool▁calls▁end｜>",
  "<｜tool▁call▁begin｜>",
  "<｜tool▁call▁end｜>",
  "<｜tool▁sep｜>",
];
const [BEGIN, END, CALL, CALL_END, SEP] = DEEPSEEK as [string, string, string, string, string];

/** `call`: one call. `around`: puts calls into an answer. */
function format(
  parser: string,
  issue: string,
  marks: readonly string[],
  call: (city: string) => string,
  around: (calls: readonly string[]) => string,
): CallFormat {
  return { parser, issue, marks, answers: [around([call("Paris")]), around([call("Paris"), call("Köln")])] };
}

export const CALL_FORMATS: readonly CallFormat[] = [
  format(
    "deepseek_v3",
    "vllm#48020, vllm#48342",
    DEEPSEEK,
    (city) => `${CALL}function${SEP}get_weather\n\`\`\`json\n{"city": "${city}"}\n\`\`\`${CALL_END}`,
    (calls) => `${BEGIN}${calls.join("\n")}${END}`,
  ),
  format(
    "deepseek_v31",
    "vllm#48020",
    DEEPSEEK,
    (city) => `${CALL}get_weather${SEP}{"city": "${city}"}${CALL_END}`,
    (calls) => `${BEGIN}${calls.join("")}${END}`,
  ),
  format(
    "gigachat3",
    "vllm#47907",
    ["<|function_call|>", "<|message_sep|>", "<|role_sep|>"],
    (city) => json(city, "arguments"),
    (calls) => `<|function_call|>${calls[0]}`,
  ),
  format(
    "granite",
    "vllm#47907",
    ["<|tool_call|>"],
    (city) => json(city, "arguments"),
    (calls) => `<|tool_call|>[${calls.join(", ")}]`,
  ),
  format(
    "granite-20b-fc",
    "vllm#47907",
    ["<function_call>"],
    (city) => `<function_call> ${json(city, "arguments")}`,
    (calls) => calls.join(" "),
  ),
  format(
    "llama3_json",
    "vllm#48294",
    ["<|python_tag|>"],
    (city) => json(city, "parameters"),
    (calls) => calls.join("; "),
  ),
  format(
    "jamba",
    "vllm#48294",
    ["<tool_calls>", "</tool_calls>"],
    (city) => json(city, "arguments"),
    (calls) => `<tool_calls>[\n    ${calls.join(",\n    ")}\n]</tool_calls>`,
  ),
  format(
    "ernie45",
    "vllm#48294",
    ["<think>", "</think>", "<response>", "</response>", "<tool_call>", "</tool_call>", "<0x0A>"],
    (city) => `<tool_call>\n${json(city, "arguments")}\n</tool_call>\n`,
    (calls) => calls.join(""),
  ),
  format(
    "internlm",
    "vllm#48347",
    ["<|action_start|>", "<|action_end|>", "<|plugin|>"],
    (city) => `<|action_start|><|plugin|>\n${json(city, "parameters")}<|action_end|>`,
    (calls) => (calls.length > 1 ? `Sure, one, two. ${calls[0]}` : calls[0]!),
  ),
];
