/**
 * Compares our parsers of the most common tool formats in vLLM's recipes with recordings of vLLM 0.33.0's parsers. Each line
 * is a random answer, sometimes damaged or cut, that its `DelegatingParser` read step by step (`parse_delta`) and whole
 * (`parse`).
 */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { idsOf } from "../../src/base/random.ts";
import type { Delta, ToolUse } from "../../src/servers/openai/tool-calls/output.ts";
import { OutputParser } from "../../src/servers/openai/tool-calls/output-parser.ts";
import { toolParserKind } from "../../src/servers/openai/tool-calls/tool-parsers.ts";
import { CALL_FORMS, type WrittenCall } from "../../src/text/grammar/call-forms.ts";
import { fromPlain } from "../../src/text/grammar/json-text.ts";
import { TOOL_FORMATS, TOOL_PARSERS } from "../../src/text/grammar/parsers.ts";
import { vocabularyOf } from "../../src/text/tokens/vocabulary.ts";
import { hosted } from "../hosted.ts";

interface RecordedAnswer {
  readonly parser: string;
  /** Texts that are special tokens of the vocabulary. Other texts consist of plain tokens. */
  readonly special: readonly string[];
  /** Token texts of each step. */
  readonly steps: readonly (readonly string[])[];
  readonly deltas: readonly (object | null)[];
  readonly whole: { readonly content: string | null; readonly calls: readonly (readonly [string, string])[] };
}

const recorded: RecordedAnswer[] = readFileSync(new URL("recorded-parsers/formats.jsonl", import.meta.url), "utf8")
  .trimEnd()
  .split("\n")
  .map((line) => JSON.parse(line));

const use: ToolUse = {
  tools: [
    {
      name: "get_weather",
      parameters: {
        type: "object",
        properties: {
          city: { type: "string" },
          n: { type: "integer" },
          b: { type: "boolean" },
          zone: { anyOf: [{ type: "number" }, { type: "null" }] },
          list: { type: "array", items: { type: "integer" } },
          at: { type: "object", properties: { x: { type: "number" }, s: { type: "string" } } },
        },
      },
    },
    { name: "get_time", parameters: null },
  ],
  choice: "auto",
  parallel: true,
  autoEnabled: true,
};

/** Returns the delta as vLLM writes it. Random ids become "ID"; ids from the model stay. */
function shown(delta: Delta | null): object | null {
  if (delta === null) return null;
  const calls = delta.calls.map(({ id, typed, index, name, arguments: args }) => ({
    ...(id === undefined ? {} : { id: id.startsWith("functions.") ? id : "ID" }),
    ...(typed ? { type: "function" } : {}),
    index,
    function: { ...(name === undefined ? {} : { name }), ...(args === undefined ? {} : { arguments: args }) },
  }));
  const content = delta.content === undefined ? {} : { content: delta.content };
  return { ...content, ...(calls.length === 0 ? {} : { tool_calls: calls }) };
}

function parserOf({ parser, special, steps }: RecordedAnswer) {
  const words = [...new Set([...special, ...steps.flat()])];
  const eos = words.length;
  const bytes = [...words.map((word) => new Uint8Array(Buffer.from(word))), new Uint8Array()];
  const vocabulary = vocabularyOf(bytes, new Set([...special.map((word) => words.indexOf(word)), eos]), eos);
  const kind = toolParserKind(TOOL_PARSERS.get(parser)!.format, vocabulary, idsOf(null));
  const made = new OutputParser(use, kind.make(use));
  return { made, idOf: (word: string) => words.indexOf(word) };
}

for (const parser of [...new Set(recorded.map((row) => row.parser))]) {
  const rows = recorded.filter((row) => row.parser === parser);
  test(`${parser}: ${rows.length} answers give the recorded deltas`, () => {
    expect(rows.length).toBeGreaterThanOrEqual(10);
    for (const row of rows) {
      const { made, idOf } = parserOf(row);
      const deltas = row.steps.map((words, at) =>
        shown(made.push(words.join(""), words.map(idOf), at === row.steps.length - 1)),
      );
      expect(JSON.stringify(deltas)).toBe(JSON.stringify(row.deltas));
    }
  });

  test(`${parser}: whole answers give the recorded message`, () => {
    for (const row of rows) {
      const message = parserOf(row).made.message(row.steps.flat().join(""));
      const calls = message.calls.map(({ name, arguments: args }) => [name, args]);
      expect({ content: message.content, calls }).toEqual(row.whole as never);
    }
  });
}

/** A vocabulary with one token per byte. Tags consist of many tokens, as with the built-in vocabulary. */
const bytes = vocabularyOf(
  Array.from({ length: 257 }, (_, byte) => new Uint8Array(byte < 256 ? [byte] : [])),
  new Set([256]),
  256,
);

test.each(TOOL_FORMATS)("%s: written calls are read back, whole and in pieces of any size", (format) => {
  const examples = [
    { city: 'Rome "x" <y> {z}\nb', n: -3, b: true, list: [1, 2], at: { x: 1.5, s: "p q" } },
    { zone: null },
    {},
  ];
  const calls: WrittenCall[] = examples.map((call, at) => ({
    name: at === 1 ? "get_weather" : ["get_weather", "", "get_time"][at]!,
    args: fromPlain(call) as WrittenCall["args"],
  }));
  const text = CALL_FORMS[format]({ text: "", spaced: true, callsBefore: 4 }, calls);
  const kind = toolParserKind(format, bytes, idsOf(null));
  const whole = new OutputParser(use, kind.make(use)).message(text);
  expect(whole.calls.map(({ arguments: json }) => JSON.parse(json))).toEqual(examples);
  // The result of llama3_json for several calls depends on where outputs end; its recordings show that.
  for (const size of format === "llama3_json" ? [] : [1, 3, 7, 1000]) {
    const streaming = new OutputParser(use, kind.make(use));
    const sent: { id: string; name: string; json: string }[] = [];
    let content = "";
    for (let at = 0; at < text.length; at += size) {
      const piece = text.slice(at, at + size);
      const delta = streaming.push(piece, [...Buffer.from(piece)], at + size >= text.length);
      content += delta?.content ?? "";
      for (const { index, id, name, arguments: more } of delta?.calls ?? []) {
        sent[index] ??= { id: id!, name: name!, json: "" };
        sent[index].json += more ?? "";
      }
    }
    expect(sent.map(({ json }) => JSON.parse(json))).toEqual(examples);
    expect([sent.map(({ name }) => name), content.trim()]).toEqual([["get_weather", "get_weather", "get_time"], ""]);
    expect(new Set(sent.map(({ id }) => id)).size).toBe(3);
    if (format === "kimi_k2") expect(sent[2]!.id).toBe("functions.get_time:6");
  }
});

test.each([
  ["kimi_k2", /^functions\.get_weather:1$/, /^\{/],
  ["openai", /^chatcmpl-tool-[0-9a-f]{16}$/, /^$/],
  ["glm47", /^chatcmpl-tool-[0-9a-f]{16}$/, /^$/],
])("a server with %s has the recorded ids and arguments in the first delta", async (parser, id, first) => {
  const flags = `--timing none --served-model-name m --enable-auto-tool-choice --tool-call-parser ${parser}`;
  const server = await hosted(flags.split(" "));
  const called = { id: "a", type: "function", function: { name: "get_time", arguments: "{}" } };
  const response = await fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model: "m",
      messages: [
        { role: "user", content: "Go" },
        { role: "assistant", tool_calls: [called] },
        { role: "tool", tool_call_id: "a", content: "12" },
        { role: "user", content: "Now the weather" },
      ],
      tools: use.tools.map(({ name, parameters }) => ({
        type: "function",
        function: {
          name,
          ...(parameters === null ? {} : { parameters: { ...(parameters as object), required: ["city"] } }),
        },
      })),
      tool_choice: { type: "function", function: { name: "get_weather" } },
      stream: true,
    }),
  });
  const lines = (await response.text()).split("\n").filter((line) => line.startsWith("data: {"));
  const calls = lines.flatMap((line) => JSON.parse(line.slice(6)).choices[0]?.delta.tool_calls ?? []);
  expect(calls[0]).toMatchObject({ index: 0, id: expect.stringMatching(id), type: "function" });
  expect(calls[0].function.name).toBe("get_weather");
  expect(calls[0].function.arguments ?? "").toMatch(first);
  const json = calls.map(({ function: { arguments: more = "" } }) => more).join("");
  expect(JSON.parse(json).city).toBeString();
  expect(calls.length).toBeGreaterThan(2);
  await server.stop();
});
