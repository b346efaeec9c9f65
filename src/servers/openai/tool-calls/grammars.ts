/**
 * The grammars of the formats that vLLM 0.33 reads with its declarative engine: `parser/qwen3.py`, `minimax_m2.py`,
 * `minimax_m3.py`, `glm47_moe.py`, `kimi_k2.py`, `deepseek_v4.py`, `gemma4.py`.
 */
import type { ToolFormat } from "../../../text/grammar/parsers.ts";
import { dsmlArguments, glmArguments, minimaxArguments, qwenArguments } from "./argument-tags.ts";
import { elementArguments, NAMESPACE } from "./element-arguments.ts";
import { endsInText, gemmaArguments, STRING_MARK } from "./gemma-arguments.ts";
import type { CallGrammar, CallState, Move } from "./grammar.ts";

/** Values that most grammars share. */
const COMMON = {
  streams: true,
  structural: "",
  keeps: [],
  checksNames: false,
  trimsContent: true,
  namesCarryIds: false,
  trimsNames: false,
} as const;

const begins = (to: CallState): Move => ({ to, begins: true });
const ends = (to: CallState): Move => ({ to, ends: true });

/** Returns the same move for each combination of these states and marks. */
function each(states: readonly CallState[], marks: readonly string[], move: Move): Record<string, Move> {
  return Object.fromEntries(states.flatMap((state) => marks.map((mark) => [`${state} ${mark}`, move])));
}

const TOOL_TAGS = ["<tool_call>", "</tool_call>"];

const qwen3Coder: CallGrammar = {
  ...COMMON,
  tags: TOOL_TAGS,
  marks: ["<function=", "</function>", "<parameter=", "</parameter>", ">"],
  moves: {
    "content <tool_call>": begins("preamble"),
    "content <function=": begins("name"),
    "preamble </tool_call>": ends("content"),
    "preamble <function=": { to: "name" },
    "name >": { to: "arguments" },
    "name </function>": ends("between"),
    "name </tool_call>": ends("content"),
    "name <tool_call>": { to: "preamble", ends: true, begins: true },
    "name <function=": { to: "name", ends: true, begins: true },
    "arguments </function>": ends("between"),
    "arguments <function=": { to: "name", ends: true, begins: true },
    "between </tool_call>": { to: "content" },
    "between <tool_call>": begins("preamble"),
    "between <function=": begins("name"),
  },
  read: qwenArguments,
};

const INVOKES = ['<invoke name="', "<invoke name='", "<invoke name="];
const NAME_ENDS = ['">', "'>", ">"];
const MINIMAX_TAGS = ["<minimax:tool_call>", "</minimax:tool_call>"];

const minimaxM2: CallGrammar = {
  ...COMMON,
  tags: MINIMAX_TAGS,
  marks: [...INVOKES, ...NAME_ENDS, "</invoke>", "<parameter name=", "</parameter>"],
  moves: {
    "content <minimax:tool_call>": { to: "preamble" },
    ...each(["content", "preamble", "between"], INVOKES, begins("name")),
    ...each(["name"], NAME_ENDS, { to: "arguments" }),
    "arguments </invoke>": ends("between"),
    ...each(["content", "preamble", "between"], [MINIMAX_TAGS[1]!], { to: "content" }),
  },
  read: minimaxArguments,
  checksNames: true,
};

const withNamespace = (mark: string) => NAMESPACE + mark;

const minimaxM3: CallGrammar = {
  ...COMMON,
  tags: [],
  marks: [
    withNamespace("<tool_call>"),
    withNamespace("</tool_call>"),
    ...INVOKES.map(withNamespace),
    withNamespace("</invoke>"),
    ...NAME_ENDS,
  ],
  moves: {
    ...each(["content"], [withNamespace("<tool_call>")], { to: "preamble" }),
    ...each(["preamble", "between"], INVOKES.map(withNamespace), begins("name")),
    ...each(["name"], NAME_ENDS, { to: "arguments" }),
    ...each(["arguments"], [withNamespace("</invoke>")], ends("between")),
    ...each(["preamble", "between"], [withNamespace("</tool_call>")], { to: "between" }),
  },
  read: elementArguments,
  streams: false,
  trimsContent: false,
};

const ARGUMENT_TAGS = ["<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"];

const glm47: CallGrammar = {
  ...COMMON,
  tags: TOOL_TAGS,
  marks: ARGUMENT_TAGS,
  moves: {
    "content <tool_call>": begins("name"),
    "name <arg_key>": { to: "arguments", isArgument: true },
    "name </tool_call>": ends("content"),
    "arguments </tool_call>": ends("content"),
  },
  read: glmArguments,
  checksNames: true,
  trimsNames: true,
};

const KIMI_TAGS = [
  "<|tool_calls_section_begin|>",
  "<|tool_calls_section_end|>",
  "<|tool_call_begin|>",
  "<|tool_call_end|>",
  "<|tool_call_argument_begin|>",
];

const kimiK2: CallGrammar = {
  ...COMMON,
  tags: KIMI_TAGS,
  marks: [],
  moves: {
    "content <|tool_calls_section_begin|>": { to: "preamble" },
    ...each(["preamble", "between"], ["<|tool_call_begin|>"], begins("name")),
    "name <|tool_call_argument_begin|>": { to: "arguments" },
    "arguments <|tool_call_end|>": ends("between"),
    "arguments <|tool_calls_section_end|>": ends("preamble"),
    ...each(["preamble", "between"], ["<|tool_calls_section_end|>"], { to: "preamble" }),
  },
  read: null,
  trimsContent: false,
  namesCarryIds: true,
};

const DSML = "｜DSML｜";
const DSML_TAGS = [`<${DSML}tool_calls>`, `</${DSML}tool_calls>`];
const DSML_INVOKE = `<${DSML}invoke name="`;

const deepseekV4: CallGrammar = {
  ...COMMON,
  tags: DSML_TAGS,
  marks: [DSML_INVOKE, '">', `</${DSML}invoke>`, `<${DSML}parameter`, `</${DSML}parameter>`],
  moves: {
    ...each(["content", "between"], [DSML_TAGS[0]!], { to: "preamble" }),
    ...each(["content", "preamble", "between"], [DSML_INVOKE], begins("name")),
    'name ">': { to: "arguments" },
    ...each(["arguments"], [`</${DSML}invoke>`, DSML_TAGS[1]!], ends("between")),
    ...each(["between"], [DSML_TAGS[1]!], { to: "between" }),
  },
  read: dsmlArguments,
  structural: ">",
  trimsContent: false,
};

const GEMMA_TAGS = ["<|tool_call>", "<tool_call|>"];

const gemma4: CallGrammar = {
  ...COMMON,
  tags: GEMMA_TAGS,
  marks: ["call:", ":", "{", "("],
  moves: {
    "content <|tool_call>": begins("preamble"),
    ...each(["preamble", "name", "arguments"], ["<tool_call|>"], ends("content")),
    ...each(["preamble"], ["call:", ":"], { to: "name" }),
    ...each(["name"], ["{", "("], { to: "arguments" }),
    "content <tool_call|>": { to: "content" },
  },
  read: gemmaArguments,
  structural: ",:{}[]<",
  isOpenText: endsInText,
  keeps: [STRING_MARK],
};

/** The grammars by format. */
export const GRAMMARS = {
  qwen3_coder: qwen3Coder,
  minimax_m2: minimaxM2,
  minimax_m3: minimaxM3,
  glm47,
  kimi_k2: kimiK2,
  deepseek_v4: deepseekV4,
  gemma4,
} as const satisfies Partial<Record<ToolFormat, CallGrammar>>;
