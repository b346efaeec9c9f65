/** Tests that reasoning is split alike from whole and streamed answers, and that generated reasoning has the ordered length. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { thoughtfulAnswer } from "../../../../src/servers/openai/request/thinking.ts";
import { AnswerParser } from "../../../../src/servers/openai/tool-calls/answer-parser.ts";
import { reasoningSetup, thinkingIsOver } from "../../../../src/servers/openai/tool-calls/reasoning.ts";
import { loadAnswers } from "../../../../src/text/answers/answers.ts";
import { ThinkingAnswer, thinkingLength } from "../../../../src/text/answers/thinking.ts";
import { loadThinkingVocabulary, loadVocabulary, vocabularyOf } from "../../../../src/text/tokens/vocabulary.ts";
import { times } from "../../../size.ts";

const utf8 = new TextEncoder();
const TOKENS = ["</s>", "<think>", "</think>", "<tool_call>", "<|im_start|>", "One", " two", "<", "\n", "é", "a < b"];
const [START, END] = [1, 2];
const small = vocabularyOf(
  TOKENS.map((text) => utf8.encode(text)),
  new Set([0]),
  0,
);
const setup = (name: "qwen3" | "deepseek_r1") => reasoningSetup(name, small)!;
const parser = (name: "qwen3" | "deepseek_r1", over = false, includeReasoning = true) =>
  new AnswerParser({ reasoning: setup(name), thinks: true, includeReasoning, tools: null, parts: null }, over);

/** Returns the joined results of a stream of these steps. */
function streamed(choiceParser: AnswerParser, steps: readonly (readonly number[])[]) {
  let [reasoning, content] = ["", ""];
  for (const [i, ids] of steps.entries()) {
    const delta = choiceParser.push(ids.map((id) => TOKENS[id]).join(""), ids, i === steps.length - 1);
    reasoning += delta?.reasoning ?? "";
    content += delta?.content ?? "";
  }
  return { reasoning, content, tokens: choiceParser.reasoningTokens };
}

const words = fc.array(fc.integer({ min: 5, max: TOKENS.length - 1 }), { maxLength: 8 });
const cuts = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 30 });

function cut(ids: readonly number[], sizes: readonly number[]): number[][] {
  const steps: number[][] = [];
  for (let at = 0, i = 0; at < ids.length; i++) {
    const size = sizes[i % sizes.length]!;
    steps.push(ids.slice(at, at + size));
    at += size;
  }
  return steps;
}

describe.each(["qwen3", "deepseek_r1"] as const)("%s", (name) => {
  test("reasoning and content are the same in any pieces as in the whole text", () => {
    fc.assert(
      fc.property(words, words, cuts, (thoughts, text, sizes) => {
        const ids = [START, ...thoughts, END, ...text];
        const steps = cut(ids, sizes);
        const { reasoning, content, tokens } = streamed(parser(name), steps);
        const whole = parser(name);
        const said = whole.extract(ids.map((id) => TOKENS[id]).join(""), ids);
        // vLLM's deepseek_r1 shows the opening tag if it comes in a step with other tokens.
        const shown = name === "deepseek_r1" ? reasoning.replace("<think>", "") : reasoning;
        expect([shown, content]).toEqual([said.reasoning ?? "", said.content ?? ""]);
        expect([tokens, whole.reasoningTokens]).toEqual([thoughts.length, thoughts.length]);
      }),
      { numRuns: times(500) },
    );
  });

  test("without an end tag, all text is reasoning, including text that looks like a tag", () => {
    fc.assert(
      fc.property(words, cuts, (thoughts, sizes) => {
        const ids = [START, ...thoughts];
        const { reasoning, content } = streamed(parser(name), cut(ids, sizes));
        const said = thoughts.map((id) => TOKENS[id]).join("");
        expect([reasoning.replace("<think>", ""), content]).toEqual([said, ""]);
      }),
      { numRuns: times(300) },
    );
  });

  test("include_reasoning false shows only the content", () => {
    const { reasoning, content } = streamed(parser(name, false, false), [[START], [5], [6], [END], [5], [6]]);
    expect([reasoning, content]).toEqual(["", "One two"]);
  });

  test("after a prompt that has closed the reasoning, all text is content", () => {
    expect(streamed(parser(name, true), [[5], [6]])).toMatchObject({ reasoning: "", content: "One two" });
  });
});

test("deepseek_r1 counts tokens only between two tags, qwen3 from the beginning without end-of-sequence", () => {
  expect(streamed(parser("deepseek_r1"), [[5], [6], [END], [5]]).tokens).toBe(0);
  expect(streamed(parser("qwen3"), [[5], [6], [END], [5]]).tokens).toBe(2);
  const qwen = parser("qwen3");
  qwen.push("One", [5], false);
  qwen.push("", [0], true);
  expect(qwen.reasoningTokens).toBe(1);
});

test.each([
  ["deepseek_r1", [5, START, 5, END], true, true],
  ["deepseek_r1", [START, 5], true, false],
  ["deepseek_r1", [5], false, false],
  ["qwen3", [5, START, 5, END], true, true],
  ["qwen3", [5, END, 4, 5], true, false],
  ["qwen3", [5], true, false],
  ["qwen3", [5], false, true],
  ["qwen3", [5, 3], true, true],
] as const)("%s after a prompt of %p with thinking %p: reasoning is over: %p", (name, prompt, thinks, over) => {
  expect(thinkingIsOver(setup(name), prompt, thinks)).toBe(over);
});

test("a vocabulary without the tags has no parser", () => {
  expect(reasoningSetup("qwen3", vocabularyOf([utf8.encode("a")], new Set(), 0))).toBeNull();
});

const built = async (name: string) => Bun.file(new URL(`../../../../build/${name}`, import.meta.url)).bytes();
const file = await built("vocabulary.bin");
const tables = loadAnswers(await built("answers.bin"));

test("the built-in vocabulary with tags differs only in its last two ids", () => {
  const [plain, thinking] = [loadVocabulary(file), loadThinkingVocabulary(file)];
  const { size } = plain;
  expect([thinking.size, thinking.eosId]).toEqual([size, plain.eosId]);
  expect([size - 2, size - 1].map((id) => thinking.piece(id))).toEqual(["<think>", "</think>"]);
  expect([size - 2, size - 1].map((id) => thinking.isSpecial(id))).toEqual([false, false]);
  for (let id = 0; id < size - 2; id += 7) expect(thinking.bytesOf(id)).toEqual(plain.bytesOf(id));
});

test("the length of reasoning varies around the mean and depends only on the seed", () => {
  const lengths = Array.from({ length: 400 }, (_, seed) => thinkingLength(seed * 7919, 64));
  const mean = lengths.reduce((sum, length) => sum + length, 0) / lengths.length;
  expect(mean).toBeGreaterThan(50);
  expect(mean).toBeLessThan(80);
  expect(new Set(lengths).size).toBeGreaterThan(40);
  expect(thinkingLength(5, 64)).toBe(thinkingLength(5, 64));
  expect(thinkingLength(5, 0)).toBe(0);
});

test("an answer is the same in any slices, with its tags in the right places", () => {
  const { size } = loadVocabulary(file);
  fc.assert(
    fc.property(fc.nat(60), fc.nat(40), fc.nat(1000), cuts, (tokens, content, seed, sizes) => {
      const thinking = { startId: size - 2, endId: size - 1, tokens };
      const drawing = { tables, seed, steering: null, vocabularySize: size };
      const answer = () =>
        thoughtfulAnswer(thinking, drawing, { contentTokens: content, minTokens: 0, maxTokens: 1000 });
      const whole = [...answer().subarray(0, 1000)];
      expect([whole.length, whole[0], whole[tokens + 1]]).toEqual([tokens + content + 2, size - 2, size - 1]);
      const sliced = answer();
      const parts: number[] = [];
      for (let at = 0, i = 0; at < sliced.length; i++) {
        const next = at + sizes[i % sizes.length]!;
        parts.push(...sliced.subarray(at, next));
        at = next;
      }
      expect(parts).toEqual(whole);
    }),
    { numRuns: times(100) },
  );
});

test("if the prompt has opened the reasoning, the answer does not begin with a tag", () => {
  const answer = new ThinkingAnswer(
    { startId: null, endId: 9, tokens: 2 },
    () => Uint32Array.of(5, 6),
    Uint32Array.of(7),
  );
  expect([...answer.subarray(0, 10)]).toEqual([5, 6, 9, 7]);
});
