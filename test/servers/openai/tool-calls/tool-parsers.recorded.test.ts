/**
 * Compares parsers of tool calls with recordings of vLLM 0.33. Each line has a random answer, correct, malformed or cut off, and
 * the results of vLLM's `ChatStreamProcessor` (step by step) and `Parser.parse` (whole text).
 */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { idsOf } from "../../../../src/base/random.ts";
import type { Delta, ToolUse } from "../../../../src/servers/openai/tool-calls/output.ts";
import { OutputParser } from "../../../../src/servers/openai/tool-calls/output-parser.ts";
import { toolParserKind } from "../../../../src/servers/openai/tool-calls/tool-parsers.ts";
import type { ToolFormat } from "../../../../src/text/grammar/parsers.ts";
import { vocabularyOf } from "../../../../src/text/tokens/vocabulary.ts";

/** A line of the recording. */
interface RecordedAnswer {
  readonly parser: ToolFormat;
  readonly choice: "auto" | "required" | "none" | { readonly function: { readonly name: string } };
  readonly parallel: boolean;
  readonly auto: boolean;
  /** 1: the request has the two tools below. 0: no tools. */
  readonly tools: number;
  readonly steps: readonly (readonly number[])[];
  readonly deltas: readonly (object | null)[];
  readonly whole: { readonly content: string | null; readonly calls: readonly (readonly [string, string])[] };
}

const read = (name: string) => readFileSync(new URL(`../../../conformance/${name}`, import.meta.url), "utf8");
const tokens: { special: number[]; bytes_hex: string[] } = JSON.parse(read("recorded-streams/tokens.json"));
const EOS = 1;
const vocabulary = vocabularyOf(
  tokens.bytes_hex.map((hex) => new Uint8Array(Buffer.from(hex, "hex"))),
  new Set(tokens.special),
  EOS,
);
const TOOLS: ToolUse["tools"] = [
  {
    name: "get_weather",
    parameters: {
      type: "object",
      properties: {
        city: { type: "string" },
        n: { type: "integer" },
        b: { type: "boolean" },
        zone: { anyOf: [{ type: "number" }, { type: "null" }] },
      },
    },
  },
  { name: "get_time", parameters: null },
];
const recorded: RecordedAnswer[] = read("recorded-parsers/cases.jsonl")
  .trimEnd()
  .split("\n")
  .map((line) => JSON.parse(line));

const textOf = (ids: readonly number[]) =>
  Buffer.concat(ids.filter((id) => id !== EOS).map((id) => vocabulary.bytesOf(id).slice())).toString();

function useOf({ choice, parallel, auto, tools }: RecordedAnswer): ToolUse {
  return {
    tools: tools === 1 ? TOOLS : [],
    choice: typeof choice === "string" ? choice : { name: choice.function.name },
    parallel,
    autoEnabled: auto,
  };
}

/** Returns a delta as vLLM writes it, with a placeholder for ids. */
function shown(delta: Delta | null): object | null {
  if (delta === null) return null;
  const calls = delta.calls.map(({ id, typed, index, name, arguments: given }) => ({
    ...(id === undefined ? {} : { id: "ID" }),
    ...(typed ? { type: "function" } : {}),
    index,
    function: { ...(name === undefined ? {} : { name }), ...(given === undefined ? {} : { arguments: given }) },
  }));
  const content = delta.content === undefined ? {} : { content: delta.content };
  return { ...content, ...(calls.length === 0 ? {} : { tool_calls: calls }) };
}

const randomIds = idsOf(null);
for (const parser of ["hermes", "llama3_json", "mistral", "qwen3_coder"] as const) {
  const kind = toolParserKind(parser, vocabulary, randomIds);
  const answers = recorded.filter((answer) => answer.parser === parser);

  test(`${parser}: ${answers.length} answers give the recorded deltas`, () => {
    expect(answers.length).toBeGreaterThanOrEqual(50);
    for (const answer of answers) {
      const use = useOf(answer);
      const made = new OutputParser(use, kind.make(use));
      const { steps } = answer;
      const deltas = steps.map((ids, at) => shown(made.push(textOf(ids), ids, at === steps.length - 1)));
      expect(JSON.stringify(deltas)).toBe(JSON.stringify(answer.deltas));
    }
  });

  test(`${parser}: whole answers give the recorded messages`, () => {
    for (const answer of answers) {
      const use = useOf(answer);
      const message = new OutputParser(use, kind.make(use)).message(textOf(answer.steps.flat()));
      const calls = message.calls.map(({ name, arguments: json }) => [name, json]);
      expect({ content: message.content, calls }).toEqual(answer.whole as never);
    }
  });
}

test("call ids are unique, with a prefix and sixteen digits, or nine characters for mistral", () => {
  const use: ToolUse = { tools: TOOLS, choice: "auto", parallel: true, autoEnabled: true };
  const idsOf = (parser: ToolFormat, text: string) =>
    new OutputParser(use, toolParserKind(parser, vocabulary, randomIds).make(use))
      .message(text)
      .calls.map(({ id }) => id);
  const call = '{"name": "get_time", "arguments": {}}';
  const hermes = idsOf("hermes", `<tool_call>${call}</tool_call>`.repeat(50));
  const mistral = idsOf("mistral", `[TOOL_CALLS][${Array(50).fill(call).join()}]`);
  for (const id of hermes) expect(id).toMatch(/^chatcmpl-tool-[0-9a-f]{16}$/);
  for (const id of mistral) expect(id).toMatch(/^[0-9A-Za-z]{9}$/);
  expect(new Set([...hermes, ...mistral]).size).toBe(100);
});
