/**
 * Compares reasoning parsers with recordings of vLLM 0.33.0. Each line has a random answer, complete or cut off, and the results
 * of vLLM's `DelegatingParser` without a tool parser, step by step and for the whole text. Also tests which requests switch
 * reasoning off.
 */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { AnswerParser } from "../../../../src/servers/openai/tool-calls/answer-parser.ts";
import type { Delta } from "../../../../src/servers/openai/tool-calls/output.ts";
import { reasoningSetup, thinkingIsOver } from "../../../../src/servers/openai/tool-calls/reasoning.ts";
import { thinksWith } from "../../../../src/servers/openai/tool-calls/reasoning-rules.ts";
import type { ReasoningFormat } from "../../../../src/text/grammar/parsers.ts";
import { vocabularyOf } from "../../../../src/text/tokens/vocabulary.ts";

/** A line of the recording. */
interface RecordedAnswer {
  readonly parser: ReasoningFormat;
  readonly special: readonly string[];
  readonly words: readonly string[];
  readonly steps: readonly (readonly string[])[];
  readonly deltas: readonly (object | null)[];
  readonly whole: { readonly reasoning: string | null; readonly content: string | null };
}

const recorded: RecordedAnswer[] = readFileSync(
  new URL("../../../conformance/recorded-parsers/reasoning.jsonl", import.meta.url),
  "utf8",
)
  .trimEnd()
  .split("\n")
  .map((line) => JSON.parse(line));

function shown(delta: Delta | null): object | null {
  const { content, reasoning } = delta ?? {};
  const members = { ...(content ? { content } : {}), ...(reasoning ? { reasoning } : {}) };
  return Object.keys(members).length === 0 ? null : members;
}

for (const parser of [...new Set(recorded.map((answer) => answer.parser))])
  test(`${parser}: steps and whole answers give the recorded results`, () => {
    for (const { special, words, steps, deltas, whole } of recorded.filter((answer) => answer.parser === parser)) {
      const eos = words.length;
      const bytes = [...words.map((word) => new Uint8Array(Buffer.from(word))), new Uint8Array()];
      const vocabulary = vocabularyOf(bytes, new Set([...special.map((word) => words.indexOf(word)), eos]), eos);
      const reasoning = reasoningSetup(parser, vocabulary)!;
      const newParser = () =>
        new AnswerParser(
          { reasoning, thinks: true, includeReasoning: true, tools: null, parts: null },
          thinkingIsOver(reasoning, [], true),
        );
      const streaming = newParser();
      const ours = steps.map((step, at) =>
        shown(
          streaming.push(
            step.join(""),
            step.map((word) => words.indexOf(word)),
            at === steps.length - 1,
          ),
        ),
      );
      expect(JSON.stringify(ours)).toBe(JSON.stringify(deltas));
      expect(newParser().extract(steps.flat().join(""), [])).toMatchObject(whole);
    }
  });

test.each([
  ["deepseek_r1", {}, true],
  ["deepseek_r1", { enable_thinking: false }, true],
  ["qwen3", { enable_thinking: false }, false],
  ["glm47", {}, true],
  ["glm47", { enable_thinking: false }, false],
  ["kimi_k2", { thinking: false }, false],
  ["kimi_k2", { thinking: null }, true],
  ["deepseek_v4", {}, true],
  ["deepseek_v4", { thinking: false }, false],
  ["deepseek_v4", { enable_thinking: true, reasoning_effort: "none" }, false],
  ["gemma4", {}, false],
  ["gemma4", { enable_thinking: true }, true],
  ["poolside_v1", {}, false],
  ["poolside_v1", { thinking: true }, true],
  ["hy_v3", {}, false],
  ["hy_v3", { reasoning_effort: "high" }, true],
  ["minimax_m2", { enable_thinking: false }, true],
] as const)("%s with %p of the template: reasons %p", (format, names, reasons) => {
  expect(thinksWith(format, names)).toBe(reasons);
});
