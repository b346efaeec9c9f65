/**
 * Writes tool calls like the model families do, in a form per parser. `src/servers/openai/tool-calls/` reads them back. Sources:
 * the docstrings of vLLM 0.33's parsers (`parser/`, `tool_parsers/`).
 */

import { type Json, jsonText } from "./json-text.ts";
import type { ToolFormat } from "./parsers.ts";

/** A tool call to be written. */
export interface WrittenCall {
  readonly name: string;
  /** Arguments by name. */
  readonly args: ReadonlyMap<string, Json>;
  /** Text to write in place of the arguments, between the same marks. Absent: `args` is written. */
  readonly raw?: string;
}

/** The text around calls. */
export interface CallText {
  /** Text before the first call, or "". */
  readonly text: string;
  /** True if a free answer separates its calls by a newline. */
  readonly spaced: boolean;
  /** Number of calls in the conversation so far. Absent: none. */
  readonly callsBefore?: number;
}

type Form = (plan: CallText, calls: readonly WrittenCall[]) => string;

/** Returns a form that writes a block per call. */
const blocks =
  (write: (call: WrittenCall) => string): Form =>
  ({ text, spaced }, calls) =>
    text + calls.map(write).join(spaced ? "\n" : "");

/** Returns a form that writes a block around all calls. */
const wrapped =
  (opens: string, write: (call: WrittenCall, number: number) => string, closes: string, between = "\n"): Form =>
  ({ text, callsBefore = 0 }, calls) =>
    text + opens + calls.map((call, index) => write(call, callsBefore + index)).join(between) + closes;

const named = (call: WrittenCall, key: string) =>
  `{"name": ${JSON.stringify(call.name)}, "${key}": ${argumentsText(call)}}`;

const argumentsText = ({ args, raw }: WrittenCall) => raw ?? jsonText(args);

/** Returns a text unchanged, and another value as JSON. */
const plain = (value: Json) => (typeof value === "string" ? value : jsonText(value));

const members = ({ args, raw }: WrittenCall, write: (key: string, value: Json) => string) =>
  raw ?? [...args].map(([key, value]) => write(key, value)).join("");

/** The form of each tool parser. */
export const CALL_FORMS: Readonly<Record<ToolFormat, Form>> = {
  hermes: blocks((call) => `<tool_call>\n${named(call, "arguments")}\n</tool_call>`),
  llama3_json: (_, calls) => calls.map((call) => named(call, "parameters")).join("; "),
  mistral: ({ text }, calls) => `${text}[TOOL_CALLS][${calls.map((call) => named(call, "arguments")).join(", ")}]`,
  qwen3_coder: blocks((call) => {
    const parameters = members(call, (key, value) => `<parameter=${key}>\n${plain(value)}\n</parameter>\n`);
    return `<tool_call>\n<function=${call.name}>\n${parameters}</function>\n</tool_call>`;
  }),
  minimax_m2: wrapped(
    "<minimax:tool_call>\n",
    (call) => {
      const parameters = members(call, (key, value) => `<parameter name="${key}">${plain(value)}</parameter>\n`);
      return `<invoke name="${call.name}">\n${parameters}</invoke>\n`;
    },
    "</minimax:tool_call>",
    "",
  ),
  minimax_m3: wrapped(
    "]<]minimax[>[<tool_call>\n",
    (call) => `]<]minimax[>[<invoke name="${call.name}">${members(call, element)}]<]minimax[>[</invoke>\n`,
    "]<]minimax[>[</tool_call>",
    "",
  ),
  glm47: blocks((call) => `<tool_call>${call.name}${members(call, keyAndValue)}</tool_call>`),
  poolside_v1: blocks((call) => {
    const pairs = members(call, (key, value) => `${keyAndValue(key, value)}\n`);
    return `<tool_call>${call.name}\n${pairs}</tool_call>`;
  }),
  hy_v3: wrapped(
    "<tool_calls>\n",
    (call) =>
      `<tool_call>${call.name}<tool_sep>\n${members(call, (key, value) => `${keyAndValue(key, value)}\n`)}</tool_call>`,
    "\n</tool_calls>",
  ),
  kimi_k2: wrapped(
    "<|tool_calls_section_begin|>",
    (call, number) =>
      `<|tool_call_begin|>functions.${call.name}:${number}<|tool_call_argument_begin|>${argumentsText(call)}<|tool_call_end|>`,
    "<|tool_calls_section_end|>",
    "",
  ),
  deepseek_v4: wrapped(
    "<｜DSML｜tool_calls>\n",
    (call) => {
      const parameters = members(call, (key, value) => {
        const isText = typeof value === "string";
        return `<｜DSML｜parameter name="${key}" string="${isText}">${plain(value)}</｜DSML｜parameter>\n`;
      });
      return `<｜DSML｜invoke name="${call.name}">\n${parameters}</｜DSML｜invoke>\n`;
    },
    "</｜DSML｜tool_calls>",
    "",
  ),
  gemma4: wrapped(
    "",
    ({ name, args, raw }) => `<|tool_call>call:${name}${raw ?? `{${gemmaMembers(args)}}`}<tool_call|>`,
    "",
    "",
  ),
  lfm2: wrapped("<|tool_call_start|>[", pythonCall, "]<|tool_call_end|>", ", "),
  openai: wrapped(
    "",
    (call) =>
      `<|channel|>commentary to=functions.${call.name} <|constrain|>json<|message|>${argumentsText(call)}<|call|>`,
    "",
    "",
  ),
};

const keyAndValue = (key: string, value: Json) => `<arg_key>${key}</arg_key><arg_value>${plain(value)}</arg_value>`;

function element(name: string, value: Json): string {
  return `]<]minimax[>[<${name}>${inside(value)}]<]minimax[>[</${name}>`;
}

function inside(value: Json): string {
  if (Array.isArray(value)) return value.map((item) => element("item", item)).join("");
  if (value instanceof Map) return [...value].map(([key, item]) => element(key, item)).join("");
  return plain(value);
}

function gemmaMembers(args: ReadonlyMap<string, Json>): string {
  return [...args].map(([key, value]) => `${key}:${gemmaValue(value)}`).join(",");
}

function gemmaValue(value: Json): string {
  if (typeof value === "string") return `<|"|>${value}<|"|>`;
  if (Array.isArray(value)) return `[${value.map(gemmaValue).join(",")}]`;
  return value instanceof Map ? `{${gemmaMembers(value)}}` : jsonText(value);
}

function pythonCall({ name, args, raw }: WrittenCall): string {
  return `${name}(${raw ?? [...args].map(([key, value]) => `${key}=${pythonValue(value)}`).join(", ")})`;
}

function pythonValue(value: Json): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(pythonValue).join(", ")}]`;
  if (!(value instanceof Map)) return JSON.stringify(value);
  return `{${[...value].map(([key, item]) => `${JSON.stringify(key)}: ${pythonValue(item)}`).join(", ")}}`;
}
