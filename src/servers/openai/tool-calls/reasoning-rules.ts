/**
 * The differences between the reasoning parsers of vLLM 0.33, and the requests that switch reasoning off. Sources:
 * `reasoning/*.py` and the constructors in `parser/*.py`, which read `chat_template_kwargs`.
 */
import type { ReasoningFormat } from "../../../text/grammar/parsers.ts";
import { GRAMMARS } from "./grammars.ts";

/** The behaviour of one reasoning parser. */
export interface ReasoningRules {
  /** True if the declarative engine parses the format. False: the parser of DeepSeek R1 does. */
  readonly isEngine: boolean;
  /** Set if requests can switch reasoning off although the engine does not parse the format. */
  readonly isSwitched?: true;
  /** True if white space at the end of reasoning is removed. */
  readonly strips: boolean;
  /** The mark of a tool call, which also ends reasoning. null: no mark does. */
  readonly toolStart: string | null;
  /** Marks of tool calls. Text that may be the beginning of a mark is withheld. */
  readonly marks: readonly string[];
  /** Tokens between turns of the prompt. */
  readonly turns: readonly string[];
}

const PLAIN: ReasoningRules = { isEngine: false, strips: false, toolStart: null, marks: [], turns: [] };

function ofEngine(grammar: keyof typeof GRAMMARS, turns: readonly string[] = [], strips = true): ReasoningRules {
  const { tags, marks } = GRAMMARS[grammar];
  return { isEngine: true, strips, toolStart: tags[0] ?? null, marks: [...tags, ...marks], turns };
}

const CHATML = ["<|im_start|>", "<|im_end|>"];

const RULES: Readonly<Record<ReasoningFormat, ReasoningRules>> = {
  deepseek_r1: PLAIN,
  hy_v3: { ...PLAIN, isSwitched: true },
  poolside_v1: { ...PLAIN, isSwitched: true },
  qwen3: ofEngine("qwen3_coder", CHATML, false),
  step3p5: ofEngine("qwen3_coder", CHATML),
  deepseek_v4: ofEngine("deepseek_v4"),
  gemma4: ofEngine("gemma4", ["<|turn>", "<|tool_response>"]),
  glm47: ofEngine("glm47", ["<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"]),
  kimi_k2: ofEngine("kimi_k2"),
  minimax_m2: ofEngine("minimax_m2"),
  // These two parsers do not search for tool calls. Only the end mark ends the reasoning.
  minimax_m3: { ...PLAIN, isEngine: true },
  openai_gptoss: { ...PLAIN, isEngine: true },
};

/** Returns the rules of a format. */
export const rulesOf = (format: ReasoningFormat): ReasoningRules => RULES[format];

/** Reports whether a text is not null. */
export const isText = (text: string | null): text is string => text !== null;

/** The variables of the request's chat template: `chat_template_kwargs` and those that vLLM adds. null: none. */
type TemplateNames = Readonly<Record<string, unknown>> | null;

/** Reports whether the answer to a request with these variables begins with reasoning. `format`: null without a parser. */
export function thinksWith(format: ReasoningFormat | null, names: TemplateNames): boolean {
  const variables = names ?? {};
  const isNamed = (name: string) => variables[name] !== undefined && variables[name] !== null;
  const either = isTruthy(variables.thinking) || isTruthy(variables.enable_thinking);
  switch (format) {
    case "qwen3":
    case null:
      return !("enable_thinking" in variables) || isTruthy(variables.enable_thinking);
    case "glm47":
    case "kimi_k2":
      return (!isNamed("thinking") && !isNamed("enable_thinking")) || either;
    case "deepseek_v4": {
      const isSilent = !("thinking" in variables) && !("enable_thinking" in variables);
      return (isSilent || either) && variables.reasoning_effort !== "none";
    }
    case "gemma4":
      return isTruthy(variables.enable_thinking);
    case "poolside_v1":
      return either;
    case "hy_v3":
      return isTruthy(variables.reasoning_effort) && variables.reasoning_effort !== "no_think";
    case "minimax_m3":
      return variables.thinking_mode !== "disabled";
    default:
      return true; // the other formats cannot switch reasoning off
  }
}

/** Returns the truth value of a JSON value in Python. */
function isTruthy(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return Boolean(value);
  return Array.isArray(value) ? value.length > 0 : Object.keys(value).length > 0;
}
