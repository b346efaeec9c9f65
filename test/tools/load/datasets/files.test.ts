/** Tests that requests from files are right, and that errors in a file are reported with their line. */
import { afterAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { dataset } from "../../../../src/tools/load/datasets/index.ts";
import type { Turn } from "../../../../src/tools/load/requests/types.ts";
import { BASE, BLOCK, beginning, file, folder, lines, read, refusal, tokensOf, turns } from "./read.ts";

afterAll(() => rmSync(folder, { recursive: true }));

const mooncakeRow = (timestamp: number, input: number, ids: readonly number[]) => ({
  timestamp,
  input_length: input,
  output_length: 7,
  hash_ids: ids,
});

describe("mooncake", () => {
  test("equal ids give equal blocks, other ids differ from the first token, a partial block is the beginning of the whole", () =>
    fc.assert(
      fc.asyncProperty(
        fc.boolean(),
        fc.array(
          fc.tuple(fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 4 }), fc.integer({ min: 1, max: 32 })),
          {
            minLength: 2,
            maxLength: 8,
          },
        ),
        async (chat, rows) => {
          const blockSize = 32;
          const written = rows.map(([ids, last], i) =>
            mooncakeRow(i, Math.max(0, ids.length - 1) * blockSize + last, ids),
          );
          const found = await turns({
            name: "mooncake",
            chat,
            path: lines(...written),
            trace: { hashBlockTokens: blockSize },
          });
          const known = new Map<number, readonly (string | number)[]>();
          const firstBlocks = new Set<string>();
          found.forEach((turn, i) => {
            const tokens = tokensOf(turn);
            expect(tokens).toHaveLength(written[i]!.input_length);
            for (const [at, id] of rows[i]![0].entries()) {
              const block = tokens.slice(at * blockSize, (at + 1) * blockSize);
              const before = known.get(id) ?? block;
              const shared = Math.min(before.length, block.length);
              expect(block.slice(0, shared)).toEqual(before.slice(0, shared));
              if (block.length >= before.length) known.set(id, block);
            }
            if (rows[i]![0].length === 0 && tokens.length >= BLOCK) firstBlocks.add(tokens.slice(0, BLOCK).join(" "));
          });
          const whole = [...known.values()].filter((block) => block.length >= BLOCK);
          const expected = rows.filter(([ids, last]) => ids.length === 0 && last >= BLOCK).length;
          expect(firstBlocks.size).toBe(expected);
          expect(new Set([...firstBlocks, ...whole.map((block) => block.slice(0, BLOCK).join(" "))]).size).toBe(
            firstBlocks.size + whole.length,
          );
        },
      ),
      { numRuns: 60 },
    ));

  test("times from the first, in microseconds", async () => {
    const path = lines(mooncakeRow(27482, 10, []), mooncakeRow(27482.5, 10, [4]), mooncakeRow(30000, 10, [4]));
    const found = await turns({ name: "mooncake", path });
    expect(found.map(({ arrivalUs }) => arrivalUs)).toEqual([0, 500, 2_518_000]);
    expect(found[0]).toMatchObject({ outputTokens: 7, inputTokens: 10, extra: { ignore_eos: true } });
  });

  test("aiperf's forms: sessions, pauses, texts, messages, bodies", async () => {
    const messages = [{ role: "user", content: "Hi" }];
    const path = lines(
      { session_id: "a", input_length: 300, output_length: 40 },
      { session_id: "a", delay: 2, input_length: 150 },
      { text_input: "Hello world", output_length: 4, extra: { temperature: 0, ignore_eos: false } },
      { session_id: "b", messages, tools: [{ type: "function" }] },
      { payload: { model: "m", messages, stream: false, max_tokens: 3 } },
      { session_id: "c", input_length: 5, context_mode: "message_array_with_responses" },
    );
    const found = await turns({ name: "mooncake", path });
    const common = { arrivalUs: null, thinkUs: 0, inputTokens: null, outputTokens: null, extra: {} };
    expect(found.map(({ conversation, thinkUs, whole }) => [conversation, thinkUs, whole])).toEqual([
      ["a", 0, undefined],
      ["a", 2000, undefined],
      [null, 0, undefined],
      ["b", 0, true],
      [null, 0, true],
      ["c", 0, true],
    ]);
    expect(found[1]).toMatchObject({ inputTokens: 150, outputTokens: null, extra: {} });
    const extra = { temperature: 0, ignore_eos: false };
    expect(found[2]).toEqual({ ...common, conversation: null, prompt: "Hello world", outputTokens: 4, extra });
    expect(found[3]).toMatchObject({ prompt: messages, extra: { tools: [{ type: "function" }] } });
    expect(found[4]).toEqual({
      ...common,
      conversation: null,
      prompt: messages,
      extra: { model: "m", max_tokens: 3 },
      whole: true,
    });
  });

  test("later turns of a session need no time and no order; first turns do", async () => {
    const row = (timestamp: number | undefined, session_id: string) => ({ timestamp, session_id, input_length: 5 });
    const path = lines(
      row(1000, "a"),
      row(9000, "a"),
      row(undefined, "a"),
      row(3000, "b"),
      row(2000, "c"),
      row(undefined, "d"),
    );
    const found = await read({ name: "mooncake", path });
    expect(found.map((item) => ("expected" in item ? item : item.arrivalUs))).toEqual([
      0,
      8_000_000,
      null,
      2_000_000,
      { line: 5, expected: "a time not before that of the request ahead of it; it is 1000 ms earlier" },
      { line: 6, expected: "a timestamp, as in the lines before it" },
    ]);
  });
});

describe("sharegpt", () => {
  const talk = (prompt: string, answer: string) => ({
    conversations: [
      { from: "human", value: prompt },
      { from: "gpt", value: answer },
    ],
  });
  const words = (count: number, word = "word") => Array(count).fill(word).join(" ");
  const count = async (texts: readonly string[]) => texts.map((text) => text.split(" ").length);

  test("vLLM's rule, with the server's own counts", async () => {
    const path = file(
      JSON.stringify([
        talk(words(3), words(10)),
        talk(words(4, "four"), words(4)),
        talk(words(10), words(3)),
        talk(words(1024, "long"), words(1024)),
        talk(words(1025), words(10)),
        talk(words(1000), words(1049)),
        { conversations: [{ from: "human", value: words(10) }] },
      ]),
    );
    const found = await turns({ name: "sharegpt", path, count });
    expect(
      found
        .map(({ prompt, inputTokens, outputTokens }) => [(prompt as string).slice(0, 4), inputTokens, outputTokens])
        .sort(),
    ).toEqual([
      ["four", 4, 4],
      ["long", 1024, 1024],
    ]);
    const fixed = await turns({ name: "sharegpt", path, count, outputLen: 2 });
    expect(fixed.map(({ inputTokens, outputTokens }) => [inputTokens, outputTokens]).sort()).toEqual(
      [
        [10, 2],
        [1000, 2],
        [1024, 2],
        [4, 2],
      ].sort(),
    );
  });

  test("as many as needed, evenly drawn, in an order that the seed decides; without counts four bytes are a token", async () => {
    const path = file(
      JSON.stringify(Array.from({ length: 300 }, (_, i) => talk(`a conversation number ${1000 + i}`, words(20)))),
    );
    const options = { name: "sharegpt", path, limit: 100 } as const;
    const numbers = async (seed: number) =>
      (await turns({ ...options, seed }, { seed })).map(({ prompt }) => Number((prompt as string).slice(-4)));
    const [first, again, other] = [await numbers(1), await numbers(1), await numbers(2)];
    expect(again).toEqual(first!);
    expect(other).not.toEqual(first!);
    expect(new Set(first).size).toBe(100);
    expect(first!.filter((number) => number >= 1200).length).toBeGreaterThan(15);
    expect((await turns(options, { most: 1 }))[0]).toMatchObject({ inputTokens: 7, outputTokens: 25, arrivalUs: null });
    expect((await dataset({ ...BASE, ...options, count })).total).toBe(100);
  });
});

test("custom: prompts, ids, messages, sessions, defaults", async () => {
  const messages = [{ role: "user", content: [{ type: "text", text: "Hi" }] }];
  const chat = await turns({
    name: "custom",
    path: lines({ prompt: "a", output_tokens: 5, session: "s", delay: 1.5 }, { messages, extra: { seed: 1 } }),
    outputLen: 9,
  });
  expect(chat).toEqual([
    { conversation: "s", prompt: "a", inputTokens: null, outputTokens: 5, arrivalUs: null, thinkUs: 1500, extra: {} },
    {
      conversation: null,
      prompt: messages as never,
      inputTokens: null,
      outputTokens: 9,
      arrivalUs: null,
      thinkUs: 0,
      extra: { seed: 1 },
      whole: true,
    },
  ]);
  const [ids] = await turns({ name: "custom", chat: false, path: lines({ prompt: [5, 6], timestamp: 3 }) });
  expect(ids).toMatchObject({ prompt: [5, 6], inputTokens: 2, outputTokens: null, arrivalUs: 0 });
});

test("azure and burstgpt: lengths and times of the file, unique prompts", async () => {
  const azure = file(
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,48,10\r\n2023-11-16 18:17:04.0319600,48,9\r\n",
  );
  const burst = file(
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n" +
      "5,,1.2,ChatGPT,472,18,490,API log\n45,7,3.1,GPT-4,30,18,48,Conversation log\n118.5,,1,GPT-4,30,0,30,API log\n119.25,,1,GPT-4,31,18,49,API log\n",
  );
  const old = file("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,GPT-4,30,18,48,API log\n");
  const shape = ({ arrivalUs, inputTokens, outputTokens }: Turn) => [arrivalUs, inputTokens, outputTokens];
  const found = await turns({ name: "azure", path: azure });
  expect(found.map(shape)).toEqual([
    [0, 48, 10],
    [52_000, 48, 9],
  ]);
  expect(beginning(found[0]!, BLOCK)).not.toBe(beginning(found[1]!, BLOCK));
  expect((await turns({ name: "burstgpt", path: burst })).map(shape)).toEqual([
    [0, 30, 18],
    [74_250_000, 31, 18],
  ]);
  expect((await turns({ name: "burstgpt", path: old })).map(shape)).toEqual([[0, 30, 18]]);
});

describe("bad input is reported by line, and the rest is read", () => {
  const good = mooncakeRow(5, 10, [1]);
  test.each([
    ["mooncake", "no json", /^a JSON object such as/],
    ["mooncake", [1], /^a JSON object such as/],
    ["mooncake", { ...good, input_length: 0 }, /^"input_length": a whole number/],
    ["mooncake", { ...good, input_length: 1e12 }, /^"input_length": a whole number/],
    ["mooncake", { ...good, output_length: 0 }, /^"output_length"/],
    ["mooncake", { ...good, timestamp: -1 }, /^"timestamp"/],
    ["mooncake", { ...good, timestamp: undefined }, /^a timestamp, as/],
    ["mooncake", { ...good, timestamp: 1 }, /4 ms earlier/],
    ["mooncake", { ...good, hash_ids: [1, 2] }, /^"hash_ids": at most 1 ids/],
    ["mooncake", { ...good, hash_ids: [-1] }, /^"hash_ids".*not -1$/],
    ["mooncake", { ...good, text_input: "a" }, /^exactly one of input_length, text_input, messages, payload/],
    ["mooncake", { timestamp: 5 }, /^exactly one of/],
    ["mooncake", { ...good, session_id: 7 }, /^"session_id"/],
    ["mooncake", { ...good, delay: "1" }, /^"delay"/],
    ["mooncake", { ...good, extra: [1] }, /^"extra"/],
    ["mooncake", { ...good, context_mode: "x" }, /^"context_mode"/],
    ["mooncake", { timestamp: 5, messages: [] }, /^"messages"/],
    ["mooncake", { timestamp: 5, payload: { prompt: "a" } }, /^"payload": a body with "messages"/],
    ["custom", { text: "a" }, /^"prompt" or "messages"/],
    ["custom", { prompt: "a", messages: [] }, /^"prompt" or "messages"/],
    ["custom", { prompt: "" }, /^"prompt": a text/],
    ["custom", { prompt: [1] }, /chat takes no token ids/],
    ["custom", { prompt: "a", output_tokens: 0 }, /^"output_tokens"/],
    ["custom", { prompt: "a", session: 1 }, /^"session"/],
    ["custom", { messages: ["a"] }, /^"messages"/],
  ] as const)("%s %j", async (name, row, expected) => {
    const first = name === "custom" ? { prompt: "good" } : good;
    const items = await read({ name, path: lines(first, row, first) });
    expect(items).toHaveLength(3);
    expect(items[1]).toMatchObject({ line: 2, expected: expect.stringMatching(expected) });
    expect([items[0], items[2]].filter((item) => "expected" in item!)).toEqual([]);
  });

  test.each([
    ["azure", "a,b,c\n2023-11-16 18:17:03.97,48,10\n", 1, /^the header TIMESTAMP/],
    ["burstgpt", "a,b\n5,GPT-4,1,2,3,x\n", 1, /^a header such as Timestamp/],
    ["burstgpt", "Timestamp,Model,Request tokens,Response tokens\nx,GPT-4,1,2\n", 2, /^seconds, a model/],
    ["sharegpt", '[{"a": 1}]', 1, /^a conversation such as/],
  ] as const)("%s %j", async (name, text, line, expected) => {
    const [item] = await read({ name, path: file(text) });
    expect(item).toMatchObject({ line, expected: expect.stringMatching(expected) });
  });

  test.each([
    [{ name: "random", path: "x" }, "--dataset-name random is generated"],
    [{ name: "mooncake" }, "--dataset-name mooncake needs --dataset-path FILE"],
    [{ name: "mooncake", path: join(folder, "none") }, "cannot read"],
    [{ name: "sharegpt", path: folder }, "cannot read"],
    [{ name: "azure", path: folder, inputLen: 5 }, "--input-len is not for --dataset-name azure; it takes no lengths"],
    [
      { name: "random", suffixLen: 5 },
      "--prefix-repetition-suffix-len is not for --dataset-name random; it takes --input-len",
    ],
    [{ name: "random", rangeRatio: 1 }, "--random-range-ratio 1: must be a number from 0 to below 1"],
    [{ name: "prefix_repetition", prefixLen: 0, suffixLen: 0 }, "a prompt must have at least one token"],
  ] as const)("%j", async (options, expected) => {
    expect(await refusal(() => dataset({ ...BASE, ...options }))).toContain(expected);
  });
});
