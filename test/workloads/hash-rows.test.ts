/** Tests rows with hash ids in `load` and `replay`: units of time, tokens per id, and turns of conversations. */
import { afterAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { dataset } from "../../src/tools/load/datasets/index.ts";
import { PromptHashes } from "../../src/tools/replay/hashes.ts";
import { bailian } from "../../src/workloads/bailian.ts";
import { Identities } from "../../src/workloads/identities.ts";
import { openTrace } from "../../src/workloads/open.ts";
import { requests } from "../../src/workloads/requests.ts";
import { spanText, Timestamps } from "../../src/workloads/timestamps.ts";
import { TraceError, type TraceOptions, type TraceRequest } from "../../src/workloads/trace.ts";
import { BASE, file, folder, lines, tokensOf, turns } from "../tools/load/datasets/read.ts";

afterAll(() => rmSync(folder, { recursive: true }));

const traceCase = (name: string) => new URL(`./traces/${name}`, import.meta.url).pathname;
const row = (timestamp: number, more: object = {}) => ({
  timestamp,
  input_length: 600,
  output_length: 5,
  hash_ids: [1, 2],
  ...more,
});

function read(path: string, options: TraceOptions = {}, format: string | null = null) {
  const trace = openTrace(path, format, options);
  const found = [...requests(trace, "t", { seed: 5, limit: 1e9, rateScale: 1, onBad: null })];
  trace.close();
  return { trace, found };
}

describe("units of time", () => {
  test.each([
    ["s", 3_000_000],
    ["ms", 3000],
    ["us", 3],
  ] as const)("--timestamp-unit %s, in replay and in load", async (timestampUnit, second) => {
    const path = lines(row(1), row(4));
    const { trace, found } = read(path, { timestampUnit });
    expect(found.map(({ arrivalUs }) => arrivalUs)).toEqual([0, second]);
    expect(trace.times!.span()).toEqual({ seconds: second / 1e6, unit: timestampUnit });
    const sent = await turns({ name: "mooncake", path, trace: { timestampUnit } });
    expect(sent.map(({ arrivalUs }) => arrivalUs)).toEqual([0, second]);
  });

  test.each([
    [
      "fractions and gaps of 2 ms",
      [1.25, 3.5, 61.114],
      /1 of 2 gaps are below 5 ms: if they are seconds, say --timestamp-unit s/,
    ],
    ["whole milliseconds", [1, 3, 61], null],
    ["fractions and long gaps", [1.5, 300.25, 9000], null],
    ["one request", [1.5], null],
    ["all at once", [1.5, 1.5], null],
  ] as const)("a warning is printed for %s", (_, stamps, warning) => {
    const { trace } = read(lines(...stamps.map((stamp) => row(stamp))));
    if (warning === null) expect(trace.times!.warning()).toBeNull();
    else expect(trace.times!.warning()).toMatch(warning);
    const stated = read(lines(...stamps.map((stamp) => row(stamp))), { timestampUnit: "ms" });
    expect(stated.trace.times!.warning()).toBeNull();
  });

  test("invalid times are refused in every unit", () => {
    for (const unit of ["s", "ms", "us"] as const) {
      const times = new Timestamps(unit, true);
      for (const value of [-1, Number.NaN, Number.POSITIVE_INFINITY, "1", null, undefined, 1e30]) {
        expect(times.microseconds(value)).toBeNull();
      }
      expect(times.span()).toBeNull();
    }
    expect(spanText({ seconds: 3661.1149, unit: "s" })).toBe("3,661.115 s (timestamps in seconds)");
  });

  test("every format with times has a span, and generated requests have none", () => {
    const azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.5,5,1\n2023-11-16 18:17:05,5,1\n";
    expect(read(file(azure)).trace.times!.span()).toEqual({ seconds: 1.5, unit: "dates" });
    expect(openTrace("synthetic:isl=1,osl=1,rate=1", null).times).toBeNull();
    expect(() => openTrace(file(azure), null, { hashBlockTokens: 16 })).toThrow(
      new TraceError("--hash-block-tokens is for mooncake, bailian, weka traces, not azure"),
    );
  });
});

describe("bailian", () => {
  test("is recognised by its fields, and has seconds, 16 tokens per id and turns of a chat", () => {
    const { trace, found } = read(traceCase("bailian.jsonl"));
    expect([trace.format, trace.blockTokens]).toEqual(["bailian", 16]);
    expect(trace.times!.span()).toEqual({ seconds: 59.864, unit: "s" });
    expect(found.map(({ arrivalUs, conversation, follows }) => [arrivalUs, conversation, follows])).toEqual([
      [0, "11", false],
      [2_250_000, "12", false],
      [59_864_000, "11", true],
    ]);
  });

  test("load sends whole prompts, in which equal ids are equal text", async () => {
    const sent = await turns({ name: "bailian", path: traceCase("bailian.jsonl") });
    expect(sent.map(({ conversation, arrivalUs, whole }) => [conversation, arrivalUs, whole])).toEqual([
      ["11", 0, true],
      ["12", 2_250_000, true],
      ["11", 59_864_000, true],
    ]);
    const [first, other, later] = sent.map(tokensOf);
    expect([first!.length, other!.length, later!.length]).toEqual([40, 20, 70]);
    expect(later!.slice(0, 32)).toEqual(first!.slice(0, 32));
    expect(later!.slice(32, 40)).not.toEqual(first!.slice(32));
  });

  test("a long chain of turns is one conversation, and a turn with a missing parent begins one", () => {
    const turn = (chat_id: number, parent_chat_id: number) => row(chat_id, { chat_id, parent_chat_id });
    const { found } = read(lines(turn(1, -1), turn(2, 1), turn(3, 2), turn(4, 77)), { hashBlockTokens: 512 });
    expect(found.map(({ conversation, follows }) => [conversation, follows])).toEqual([
      ["1", false],
      ["1", true],
      ["1", true],
      ["4", false],
    ]);
  });

  test.each([
    [{ chat_id: -5 }, '"chat_id": a whole number, or a text, not -5'],
    [{ parent_chat_id: -2 }, '"parent_chat_id": as "chat_id", or -1, not -2'],
    [{ parent_chat_id: undefined }, '"parent_chat_id": as "chat_id", or -1; it is missing'],
    [{ timestamp: -1 }, '"timestamp": seconds, a number of at least 0, not -1'],
    [{ input_length: 16 }, '"hash_ids": at most 1 ids, one per 16 tokens of input_length 16, not 2'],
  ])("%j is refused by the condition and the value", (spoiled, expected) => {
    const path = lines({
      chat_id: 5,
      parent_chat_id: -1,
      timestamp: 1,
      input_length: 20,
      output_length: 1,
      hash_ids: [1, 2],
      ...spoiled,
    });
    expect(() => read(path, {}, "bailian")).toThrow(new TraceError(`t:1: expected ${expected}`));
  });

  test("rows without output are counted, and too many chats end the trace", () => {
    const rows = [0, 1, 2].map((chat_id) => ({ ...row(1), input_length: 32, chat_id, parent_chat_id: -1 }));
    const { trace, found } = read(lines({ ...rows[0], output_length: 0 }, rows[1]));
    expect([found.length, trace.passed.count]).toEqual([1, 1]);
    const items = () => [
      ...bailian(
        rows.map((each, at) => ({ number: at + 1, text: JSON.stringify(each) })),
        { blockTokens: 16, times: new Timestamps("s", true), ids: new Identities() },
        () => {},
        2,
      ),
    ];
    expect(items).toThrow(new TraceError("line 3: more than 2 chats in a bailian trace"));
  });
});

describe("skipped rows", () => {
  const BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n";

  test("burstgpt: the message states rows, reasons and how to select others", () => {
    const path = traceCase("burst.csv");
    const all = "3 rows, 3 passed over: Model is gpt-4 (2), Model is ChatGPT (1)";
    const message = `no request to send: ${all}; --trace-models and --trace-log-types choose others`;
    expect(() => read(path)).toThrow(new TraceError(`t: ${message}`));
  });

  test.each([
    [{ models: ["gpt-4"] }, [512, 300], "3 rows, 1 passed over: Model is ChatGPT"],
    [{ models: ["ChatGPT"] }, [200], "3 rows, 2 passed over: Model is gpt-4"],
    [{ models: ["all"] }, [512, 300, 200], null],
    [{ models: ["all"], logTypes: ["chat"] }, [512, 300], "3 rows, 1 passed over: Log Type is Conversation log"],
    [{ models: ["gpt-4", "ChatGPT"], logTypes: ["all"] }, [512, 300, 200], null],
  ] as const)("burstgpt, chosen by %j, in replay and in load", async (trace, prompts, reasons) => {
    const path = traceCase("burst.csv");
    const { trace: opened, found } = read(path, trace);
    expect(found.map(({ promptTokens }) => promptTokens)).toEqual([...prompts]);
    expect(opened.passed.text()).toBe(reasons);
    const sent = await turns({ name: "burstgpt", path, trace });
    expect(sent.map(({ inputTokens }) => inputTokens)).toEqual([...prompts]);
  });

  test("burstgpt: rows without tokens are skipped, and errors name the cell", () => {
    const { trace } = read(file(`${BURST}1,GPT-4,5,0,5,x\n2,GPT-4,0,5,5,x\n3,GPT-4,5,5,10,x\n`));
    expect(trace.passed.text()).toBe("3 rows, 2 passed over: Response tokens is 0 (1), Request tokens is 0 (1)");
    expect(() => read(file(`${BURST}1,GPT-4,5,many,5,x\n`))).toThrow(
      /"Response tokens" is a whole number, not "many"$/,
    );
    expect(() => read(file(`${BURST}noon,GPT-4,5,1,5,x\n`))).toThrow(
      /"Timestamp" is a number of at least 0, not "noon"$/,
    );
    expect(() => read(lines(row(1)), { models: ["all"] })).toThrow(
      "--trace-models is for burstgpt traces, not mooncake",
    );
  });

  test("twenty reasons are distinguished", () => {
    const rows = Array.from({ length: 30 }, (_, i) => `1,model-${i},5,5,5,x`).join("\n");
    expect(() => read(file(`${BURST}${rows}\n`))).toThrow("other reasons (10)");
  });

  test("sharegpt: reads rows of OpenAI messages", () => {
    const { trace, found } = read(traceCase("sharegpt-oai.jsonl"));
    expect([trace.format, trace.passed.text()]).toEqual(["sharegpt", null]);
    expect(found.map(({ promptTokens, outputTokens }) => [promptTokens, outputTokens])).toEqual([[13, 14]]);
  });

  test("sharegpt: reads roles, parts and tool calls of messages", () => {
    const say = (role: string, content: unknown) => ({ role, content });
    const text = (...values: string[]) => values.map((value) => ({ type: "text", text: value }));
    const path = lines(
      { messages: [say("system", "1234"), say("user", text("12345678", "abc")), say("assistant", text("12345"))] },
      { messages: [say("user", "a")] },
      { messages: [say("assistant", "a"), say("user", "b")] },
      { messages: [say("user", "a"), say("assistant", null)] },
      { messages: [say("user", "a"), say("assistant", "12345678"), say("user", "b")] },
    );
    const { trace, found } = read(path);
    // 4 + 2 + 11 characters of the first prompt.
    expect(found.map(({ promptTokens, outputTokens }) => [promptTokens, outputTokens])).toEqual([
      [5, 2],
      [1, 2],
    ]);
    expect(trace.passed.text()).toBe(
      "5 rows, 3 passed over: no answer of the assistant (1), the assistant speaks first (1), the first answer has no text (1)",
    );
    expect(() => read(lines({ messages: [{ content: "a" }] }), {}, "sharegpt")).toThrow(
      "expected a conversation such as",
    );
  });

  test("sharegpt in load: conversations that vLLM's rule leaves out are counted by reason", async () => {
    const talk = (prompt: number, answer: number) => ({
      messages: [
        { role: "user", content: "a".repeat(4 * prompt) },
        { role: "assistant", content: "b".repeat(4 * answer) },
      ],
    });
    const path = lines(talk(10, 10), talk(3, 10), talk(10, 3), talk(1025, 10), talk(1000, 1049), { messages: [] });
    const found = await dataset({ ...BASE, name: "sharegpt", path });
    expect([...found.turns(0)]).toHaveLength(1);
    expect(found.rows().passed!.text()).toBe(
      "6 rows, 5 passed over: prompt below 4 tokens (1), answer below 4 tokens (1), prompt above 1024 tokens (1), prompt and answer above 2048 tokens (1), no answer of the assistant (1)",
    );
    expect(await turns({ name: "sharegpt", path: traceCase("sharegpt-oai.jsonl") })).toMatchObject([
      { prompt: "Please tell me something about rivers and the sea", outputTokens: 14 },
    ]);
  });
});

describe("tokens per hash id and tokens per engine block", () => {
  const request = (promptTokens: number, blockIds: readonly number[] | null): TraceRequest => ({
    line: 1,
    arrivalUs: 0,
    promptTokens,
    outputTokens: 1,
    blockIds,
  });
  /** Returns the number of full blocks that the beginnings of two prompts share. */
  function shared(blockSize: number, idTokens: number, one: TraceRequest, other: TraceRequest): number {
    const hashes = new PromptHashes(blockSize, idTokens);
    const first = [...hashes.of(one, 1)];
    const second = [...hashes.of(other, 2)];
    let same = 0;
    while (same < first.length && first[same] === second[same]) same++;
    return same >> 1;
  }

  test.each([
    [16, 16, 2],
    [16, 512, 64],
    [32, 16, 1],
    [24, 16, 1],
    [64, 16, 0],
    [512, 16, 0],
    [48, 512, 21],
  ])("blocks of %d, ids of %d tokens: %d shared blocks", (blockSize, idTokens, blocks) => {
    const tokens = 5 * idTokens;
    const [first, second] = [request(tokens, [1, 2, 3, 4, 5]), request(tokens, [1, 2, 9, 4, 5])];
    expect(shared(blockSize, idTokens, first, second)).toBe(blocks);
    expect(shared(blockSize, idTokens, first, first)).toBe(Math.floor(tokens / blockSize));
  });

  test("blocks that ids do not fully cover are not shared", () => {
    expect(shared(24, 16, request(80, [1, 2]), request(80, [1, 2]))).toBe(1);
    expect(shared(16, 16, request(80, null), request(80, null))).toBe(0);
  });
});
