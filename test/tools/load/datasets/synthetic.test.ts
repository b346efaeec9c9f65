/** Tests that generated prompts have the right lengths, repeat with the same seed, and are not alike by accident. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { countTokens as cl100k } from "gpt-tokenizer/encoding/cl100k_base";
import { countTokens as o200k } from "gpt-tokenizer/encoding/o200k_base";
import { countTokens as r50k } from "gpt-tokenizer/encoding/r50k_base";
import { dataset, parseThinkTime } from "../../../../src/tools/load/datasets/index.ts";
import { measure } from "../../../../src/tools/load/datasets/text.ts";
import { WORDS } from "../../../../src/tools/load/datasets/words.ts";
import { times } from "../../../size.ts";
import { BASE, BLOCK, beginning, refusal, tokensOf, turns } from "./read.ts";

describe("words", () => {
  test.each([
    ["r50k", r50k],
    ["cl100k", cl100k],
    ["o200k", o200k],
  ])("each word is one token of %s, alone and after a space, and a text has as many tokens as words", (_, count) => {
    expect(WORDS).toHaveLength(512);
    expect(new Set(WORDS).size).toBe(512);
    expect(WORDS.filter((word) => count(word) !== 1 || count(` ${word}`) !== 1)).toEqual([]);
    expect(count(WORDS.join(" "))).toBe(512);
  });

  test("words that the server splits are left out; tokens that it adds to every text are not counted", async () => {
    const odd = new Set(WORDS.filter((_, i) => i % 7 === 3));
    const calls: number[] = [];
    const found = await measure(async (texts) => {
      calls.push(texts.length);
      return texts.map((text) => 2 + text.split(" ").reduce((sum, word) => sum + (odd.has(word) ? 3 : 1), 0));
    });
    expect(found.words.filter((word) => odd.has(word))).toEqual([]);
    expect([...found.words].sort()).toEqual(WORDS.filter((word) => !odd.has(word)).sort());
    expect(found).toMatchObject({ tokensPerWord: 1, measured: true });
    expect(Math.max(...calls)).toBeLessThanOrEqual(64);
  });

  test("if no word is one token, texts follow the measured average", async () => {
    const count = async (texts: readonly string[]) => texts.map((text) => 1 + text.replaceAll(" ", "").length);
    const { tokensPerWord, words } = await measure(count);
    expect(words).toBe(WORDS);
    expect(tokensPerWord).toBeCloseTo(WORDS.join("").length / 512, 9);
    const [turn] = await turns({ name: "random", count, inputLen: 2000 }, { most: 1 });
    expect(Math.abs((await count([turn!.prompt as string]))[0]! - 2000)).toBeLessThan(200);
  });

  test("the server is asked once if every word is one token", async () => {
    let calls = 0;
    const count = async (texts: readonly string[]) => {
      calls++;
      return texts.map((text) => 1 + o200k(text));
    };
    expect(await measure(count)).toEqual({ words: WORDS, tokensPerWord: 1, measured: true });
    expect(calls).toBe(1);
  });

  test("a tokenizer without a count for each text is refused", async () => {
    expect(await refusal(() => dataset({ ...BASE, name: "random", count: async () => [3] }))).toContain("tokenizer");
  });
});

describe("generated prompts", () => {
  const shape = fc.record({
    chat: fc.boolean(),
    seed: fc.integer(),
    inputLen: fc.integer({ min: 20, max: 300 }),
    outputLen: fc.integer({ min: 1, max: 300 }),
    rangeRatio: fc.double({ min: 0, max: 0.9, noNaN: true }),
    prefixLen: fc.integer({ min: 0, max: 60 }),
  });

  test("random: lengths within vLLM's bounds, one common prefix and nothing else shared, the same turns for the same seed", () =>
    fc.assert(
      fc.asyncProperty(shape, async ({ seed, ...options }) => {
        const all = await turns({ name: "random", ...options }, { seed, most: 40 });
        const { inputLen, outputLen, rangeRatio, prefixLen } = options;
        for (const turn of all) {
          expect(tokensOf(turn)).toHaveLength(turn.inputTokens!);
          const remaining = turn.inputTokens! - prefixLen;
          expect(remaining).toBeGreaterThanOrEqual(Math.floor(inputLen * (1 - rangeRatio)));
          expect(remaining).toBeLessThanOrEqual(Math.ceil(inputLen * (1 + rangeRatio)));
          expect(turn.outputTokens).toBeGreaterThanOrEqual(Math.max(1, Math.floor(outputLen * (1 - rangeRatio))));
          expect(turn.outputTokens).toBeLessThanOrEqual(Math.ceil(outputLen * (1 + rangeRatio)));
          expect(turn).toMatchObject({ conversation: null, arrivalUs: null, thinkUs: 0, extra: { ignore_eos: true } });
        }
        expect(new Set(all.map((turn) => beginning(turn, prefixLen))).size).toBe(1);
        const long = all.filter((turn) => turn.inputTokens! >= prefixLen + BLOCK);
        expect(new Set(long.map((turn) => beginning(turn, prefixLen + BLOCK))).size).toBe(long.length);
        expect(await turns({ name: "random", ...options }, { seed, most: 40 })).toEqual(all);
        // Warm-up prompts do not even have the prefix in common.
        const warm = await turns({ name: "random", ...options }, { seed, most: 10, warmUp: true });
        const begun = new Set(all.map((turn) => beginning(turn, BLOCK)));
        expect(warm.filter((turn) => tokensOf(turn).length >= BLOCK && begun.has(beginning(turn, BLOCK)))).toEqual([]);
      }),
      { numRuns: times(40) },
    ));

  test("another seed gives other turns", async () => {
    const [first, second] = [
      await turns({ name: "random" }, { seed: 1, most: 20 }),
      await turns({ name: "random" }, { seed: 2, most: 20 }),
    ];
    const begun = new Set(first!.map((turn) => beginning(turn, BLOCK)));
    expect(second!.filter((turn) => begun.has(beginning(turn, BLOCK)))).toEqual([]);
  });

  test("conversations are text for every backend, because answers are", async () => {
    const [turn] = await turns({ name: "multi_turn", chat: false }, { most: 1 });
    expect(typeof turn!.prompt).toBe("string");
  });

  test("ids are ordinary tokens in all common vocabularies", async () => {
    const ids = (await turns({ name: "random", chat: false }, { most: 20 })).flatMap(tokensOf) as number[];
    expect(Math.min(...ids)).toBeGreaterThanOrEqual(1000);
    expect(Math.max(...ids)).toBeLessThan(32_000 - 1000);
  });

  test("prefix_repetition: each prefix once per round, unique suffixes", () =>
    fc.assert(
      fc.asyncProperty(
        fc.boolean(),
        fc.integer(),
        fc.integer({ min: 1, max: 12 }),
        fc.integer({ min: BLOCK, max: 50 }),
        async (chat, seed, numPrefixes, length) => {
          const options = {
            name: "prefix_repetition",
            chat,
            numPrefixes,
            prefixLen: length,
            suffixLen: length,
          } as const;
          const all = await turns(options, { seed, most: 3 * numPrefixes });
          const prefixes = all.map((turn) => beginning(turn, length));
          const first = new Set(prefixes.slice(0, numPrefixes));
          expect(first.size).toBe(numPrefixes);
          for (const round of [1, 2]) {
            expect(new Set(prefixes.slice(round * numPrefixes, (round + 1) * numPrefixes))).toEqual(first);
          }
          expect(all.every((turn) => tokensOf(turn).length === 2 * length && turn.inputTokens === 2 * length)).toBe(
            true,
          );
          expect(new Set(all.map((turn) => beginning(turn, length + BLOCK))).size).toBe(all.length);
          // No suffix has a beginning in common with another.
          const behind = all.map((turn) =>
            tokensOf(turn)
              .slice(length, length + BLOCK)
              .join(" "),
          );
          expect(behind.filter((text) => prefixes.some((prefix) => prefix.startsWith(text)))).toEqual([]);
        },
      ),
      { numRuns: times(30) },
    ));

  test("prefix_repetition has vLLM's defaults", async () => {
    const all = await turns({ name: "prefix_repetition" }, { most: 100 });
    expect(new Set(all.map((turn) => beginning(turn, 256))).size).toBe(10);
    expect(all.every((turn) => tokensOf(turn).length === 512 && turn.outputTokens === 128)).toBe(true);
  });

  test("multi_turn: successive turns, no pause before the first, a common prefix, pauses as configured", async () => {
    const think = parseThinkTime("exponential:2s")!;
    const options = { name: "multi_turn", inputLen: 40, prefixLen: 32, turns: { least: 1, most: 4 }, think } as const;
    const all = await turns(options, { most: 2000 });
    const groups = Map.groupBy(all.slice(0, -4), (turn) => turn.conversation);
    expect([...groups.keys()]).toEqual([...groups.keys()].map((_, i) => `conversation-${i}`));
    const sizes = new Set([...groups.values()].slice(0, -1).map((group) => group.length));
    expect([...sizes].sort()).toEqual([1, 2, 3, 4]);
    const firsts = [...groups.values()].map((group) => group[0]!);
    expect(firsts.every((turn) => turn.thinkUs === 0 && tokensOf(turn).length === 72)).toBe(true);
    expect(new Set(firsts.map((turn) => beginning(turn, 32))).size).toBe(1);
    const later = [...groups.values()].flatMap((group) => group.slice(1));
    expect(later.every((turn) => tokensOf(turn).length === 40 && turn.thinkUs > 0)).toBe(true);
    expect(
      new Set([...firsts.map((turn) => beginning(turn, 48)), ...later.map((turn) => beginning(turn, BLOCK))]).size,
    ).toBe(firsts.length + later.length);
    const mean = later.reduce((sum, turn) => sum + turn.thinkUs, 0) / later.length;
    expect(Math.abs(mean / 2e6 - 1)).toBeLessThan(0.15);
  });

  test.each([
    ["500ms", { kind: "constant", meanUs: 5e5 }],
    ["constant:2s", { kind: "constant", meanUs: 2e6 }],
    ["exponential:1m", { kind: "exponential", meanUs: 6e7 }],
    ["uniform:1s-5s", { kind: "uniform", leastUs: 1e6, mostUs: 5e6 }],
    ["lognormal:2.5s,0.8", { kind: "lognormal", meanUs: 2.5e6, sigma: 0.8 }],
    ...[
      "",
      "2",
      "2h",
      "-1s",
      "uniform:5s-1s",
      "uniform:5s",
      "lognormal:2s",
      "normal:2s",
      "exponential:2s,1",
      "90000s",
    ].map((text) => [text, undefined] as const),
  ])("think time %p", (text, expected) => expect(parseThinkTime(text)).toEqual(expected as never));
});
