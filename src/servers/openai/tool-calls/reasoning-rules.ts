/**
 * How the reasoning parsers of vLLM 0.33 differ, by format, and which requests switch reasoning off. Sources: `reasoning/*.py` and
 * the constructors in `parser/*.py`, which read `chat_template_kwargs`.
 */
import type { ReasoningFormat } from "../../../text/grammar/parsers.ts";
import { GRAMMARS } from "./grammars.ts";

export interface ReasoningRules {
  /** The declarative engine reads it; false: the parser of DeepSeek R1. */
  readonly isEngine: boolean;
  /** Requests may switch reasoning off, although no engine reads it. */
  readonly isSwitched?: true;
  /** White space at the end of reasoning is dropped. */
  readonly strips: boolean;
  /** The mark of a tool call, which ends reasoning; null: none does. */
  readonly toolStart: string | null;
  /** Marks of tool calls whose beginnings are held back. */
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
  // Neither looks for tool calls: what follows reasoning is told by its end alone.
  minimax_m3: { ...PLAIN, isEngine: true },
  openai_gptoss: { ...PLAIN, isEngine: true },
};

export const rulesOf = (format: ReasoningFormat): ReasoningRules => RULES[format];

export const isText = (text: string | null): text is string => text !== null;

/** What the request's template may read (`chat_template_kwargs`, and what vLLM adds); null: nothing. */
type TemplateNames = Readonly<Record<string, unknown>> | null;

/** Reports whether an answer to such a request begins with reasoning. `format` null: there is no parser, and it does not matter. */
export function thinksWith(format: ReasoningFormat | null, names: TemplateNames): boolean {
  const given = names ?? {};
  const isNamed = (name: string) => given[name] !== undefined && given[name] !== null;
  const either = isTruthy(given.thinking) || isTruthy(given.enable_thinking);
  switch (format) {
    case "qwen3":
    case null:
      return !("enable_thinking" in given) || isTruthy(given.enable_thinking);
    case "glm47":
    case "kimi_k2":
      return (!isNamed("thinking") && !isNamed("enable_thinking")) || either;
    case "deepseek_v4": {
      const isSilent = !("thinking" in given) && !("enable_thinking" in given);
      return (isSilent || either) && given.reasoning_effort !== "none";
    }
    case "gemma4":
      return isTruthy(given.enable_thinking);
    case "poolside_v1":
      return either;
    case "hy_v3":
      return isTruthy(given.reasoning_effort) && given.reasoning_effort !== "no_think";
    case "minimax_m3":
      return given.thinking_mode !== "disabled";
    default:
      return true; // the others have no switch
  }
}

/** Python's truth of a JSON value. */
function isTruthy(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return Boolean(value);
  return Array.isArray(value) ? value.length > 0 : Object.keys(value).length > 0;
}
