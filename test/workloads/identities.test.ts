/** Tests hash ids, rows without ids or times, and gzip files, in `load` and `replay`. */
import { afterAll, describe, expect, test } from "bun:test";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { Identities, traceRowIn } from "../../src/workloads/identities.ts";
import { TraceFile } from "../../src/workloads/lines.ts";
import { mooncake } from "../../src/workloads/mooncake.ts";
import { openTrace } from "../../src/workloads/open.ts";
import { requests } from "../../src/workloads/requests.ts";
import { Timestamps } from "../../src/workloads/timestamps.ts";
import { TraceError } from "../../src/workloads/trace.ts";
import { file, folder, lines, tokensOf, turns } from "../tools/load/datasets/read.ts";

afterAll(() => rmSync(folder, { recursive: true }));

const traceCase = (name: string) => new URL(`./traces/${name}`, import.meta.url).pathname;
const row = (timestamp: number, ids: string) =>
  `{"timestamp": ${timestamp}, "input_length": 600, "output_length": 5, "hash_ids": ${ids}}`;

function read(path: string, rateScale = 1) {
  const trace = openTrace(path, null);
  const found = [...requests(trace, "t", { seed: 5, limit: 1e9, rateScale, onBad: null })];
  trace.close();
  return { trace, found };
}

/** Returns which rows begin with the same block of text, and which have the same second block. */
async function blocksOf(path: string): Promise<[firsts: number, seconds: number]> {
  const tokens = (await turns({ name: "mooncake", path })).map(tokensOf);
  const texts = (from: number, to: number) => new Set(tokens.map((each) => each.slice(from, to).join(" "))).size;
  return [texts(0, 512), texts(512, 600)];
}

describe("hash ids", () => {
  test("64-bit ids that differ in the last digit or by 2^32 are different", async () => {
    const { found } = read(traceCase("big.jsonl"));
    expect(found.map(({ blockIds }) => blockIds)).toEqual([
      [0, 1],
      [2, 1],
      [3, 4],
      [5, 4],
    ]);
    expect(await blocksOf(traceCase("big.jsonl"))).toEqual([4, 2]);
  });

  test.each([
    [
      "texts, and numbers that look alike",
      ['["a", "b"]', '["b", "a"]', '["1", "x"]', "[1, 2]"],
      [
        [0, 1],
        [1, 0],
        [2, 3],
        [4, 5],
      ],
    ],
    ["a long number and the text of its digits", ["[18446744073709551615]", '["18446744073709551615"]'], [[0], [1]]],
    ["numbers just above 2^53", ["[9007199254740992]", "[9007199254740993]", "[9007199254740991]"], [[0], [1], [2]]],
    ["the same number in another form", ["[5]", "[5.0]", "[5e0]"], [[0], [0], [0]]],
    ["an empty text", ['[""]', '["a"]', '[""]'], [[0], [1], [0]]],
  ] as const)("%s", (_, ids, expected) => {
    const { found } = read(lines(...ids.map((each, at) => row(at, each))));
    expect(found.map(({ blockIds }) => blockIds)).toEqual(expected.map((each) => [...each]));
  });

  test.each([
    ["[18446744073709551616]", "18446744073709551616"],
    ["[-1]", "-1"],
    ["[-9007199254740993]", "-9007199254740992"],
    ["[1.5]", "1.5"],
    ["[null]", "null"],
    ["[[1]]", "[1]"],
  ])("%s is not an id", (ids, shown) => {
    const message = `t:1: expected "hash_ids": whole numbers from 0 to 2^64 - 1, or texts, not ${shown}`;
    expect(() => read(lines(row(0, ids)))).toThrow(new TraceError(message));
  });

  test("long numbers in other fields are read as JSON.parse reads them", () => {
    const found = traceRowIn(
      '{"extra": {"seed": 18446744073709551615}, "hash_ids": [18446744073709551615], "t": "1234567890123456"}',
    );
    expect(found).toEqual({ extra: { seed: 2 ** 64 }, hash_ids: [2n ** 64n - 1n], t: "1234567890123456" });
    expect([traceRowIn("[1]"), traceRowIn("{"), traceRowIn(null)]).toEqual([null, null, null]);
  });

  test("rows without ids share no blocks", async () => {
    const { found } = read(traceCase("nohash.jsonl"));
    expect(found.map(({ blockIds, promptTokens }) => [blockIds, promptTokens])).toEqual([
      [null, 655],
      [null, 655],
    ]);
    expect(await blocksOf(traceCase("nohash.jsonl"))).toEqual([2, 2]);
    expect(read(lines(row(0, "null"))).found[0]!.blockIds).toBeNull();
  });

  test("the number of different ids is limited, except for small whole numbers", () => {
    const ids = new Identities(3, 100);
    expect([0, 1 << 23, 0, 7].map((id) => ids.of(id))).toEqual([0, 1, 0, 2]);
    expect(["a", 2 ** 40, 2n ** 63n, "a"].map((id) => ids.of(id))).toEqual([3, 4, 5, 3]);
    expect(() => ids.of("b")).toThrow(
      /^more than 3 different hash ids in a trace that are texts, or from 16777216 on$/,
    );
    expect(() => new Identities(3, 20).of("b".repeat(20))).toThrow("more than 20 characters of hash ids in a trace");
    ids.forget();
    expect([ids.of(7), ids.of("a"), ids.of(7)]).toEqual([6, 7, 6]);
  });
});

describe("rows with a session and a pause instead of a time", () => {
  test("in replay, the row follows its session after the pause", () => {
    const { trace, found } = read(traceCase("delta.jsonl"), 2);
    expect(
      found.map(({ arrivalUs, conversation, follows, thinkUs }) => [arrivalUs, conversation, follows, thinkUs]),
    ).toEqual([
      [0, "s1", false, 0],
      [5000, "s2", false, 0],
      [0, "s1", true, 1_000_000],
    ]);
    expect(trace.times!.span()).toEqual({ seconds: 0.01, unit: "ms" });
  });

  test("in load, a row that repeats the session's first id is the whole prompt", async () => {
    const found = await turns({ name: "mooncake", path: traceCase("delta.jsonl") });
    expect(
      found.map(({ conversation, arrivalUs, thinkUs, whole }) => [conversation, arrivalUs, thinkUs, whole]),
    ).toEqual([
      ["s1", 0, 0, undefined],
      ["s2", 10_000, 0, undefined],
      ["s1", null, 2_000_000, true],
    ]);
    const [first, , later] = found.map(tokensOf);
    expect(later!.slice(0, 600)).toEqual([...first!]);
    const stated = { session_id: "a", input_length: 20, hash_ids: [1], context_mode: "deltas_without_responses" };
    const deltas = await turns({ name: "mooncake", path: lines(stated, stated, { session_id: "b", input_length: 9 }) });
    expect(deltas.map(({ whole }) => whole)).toEqual([undefined, undefined, undefined]);
  });

  const row = (more: object) => ({ input_length: 600, output_length: 5, hash_ids: [1], ...more });

  test("a session without a first time begins with the row before it, in replay and in load", async () => {
    const path = lines(
      row({ timestamp: 10 }),
      row({ timestamp: 30 }),
      row({ session_id: "a", delay: 5 }),
      row({ session_id: "a" }),
    );
    expect(read(path).found.map(({ arrivalUs, follows }) => [arrivalUs, follows])).toEqual([
      [0, undefined],
      [20_000, undefined],
      [20_000, false],
      [0, true],
    ]);
    const sent = await turns({ name: "mooncake", path });
    expect(sent.map(({ arrivalUs }) => arrivalUs)).toEqual([0, 20_000, 20_000, null]);
  });

  test.each([
    [{}, '"timestamp": milliseconds, a number of at least 0; it is missing, and so is "session_id" with "delay"'],
    [
      { session_id: "a" },
      '"timestamp": milliseconds, a number of at least 0; it is missing, and so is "session_id" with "delay"',
    ],
    [
      { delay: 5 },
      '"timestamp": milliseconds, a number of at least 0; it is missing, and so is "session_id" with "delay"',
    ],
    [{ session_id: "a", delay: -5 }, '"delay": milliseconds, a number of at least 0, not -5'],
    [{ session_id: 7, delay: 5 }, '"session_id": a text, not 7'],
    [{ timestamp: "1" }, '"timestamp": milliseconds, a number of at least 0, not "1"'],
    [{ timestamp: 1, input_length: 0 }, '"input_length": a whole number of at least 1, not 0'],
    [{ timestamp: 1, output_length: 2.5 }, '"output_length": a whole number of at least 1, not 2.5'],
    [{ timestamp: 1, output_length: undefined }, '"output_length": a whole number of at least 1; it is missing'],
    [{ timestamp: 1, hash_ids: "a" }, '"hash_ids": at most 2 ids, one per 512 tokens of input_length 600, not "a"'],
    [{ timestamp: 1, hash_ids: [1, 2, 3] }, '"hash_ids": at most 2 ids, one per 512 tokens of input_length 600, not 3'],
  ])("%j is refused by the condition and the value", (more, expected) => {
    expect(() => read(lines(row(more)))).toThrow(new TraceError(`t:1: expected ${expected}`));
  });

  test("the number of sessions is limited", () => {
    const shape = { blockTokens: 512, times: new Timestamps("ms", true), ids: new Identities() };
    const texts = ["a", "a", "b", "c"].map((session_id) => JSON.stringify(row({ session_id, delay: 1 })));
    const items = () => [
      ...mooncake(
        texts.map((text, at) => ({ number: at + 1, text })),
        shape,
        2,
      ),
    ];
    expect(items).toThrow(new TraceError("line 4: more than 2 sessions in a mooncake trace"));
  });
});

describe("gzip", () => {
  test("a gzip trace is read like a plain one under any file name", async () => {
    const { trace, found } = read(traceCase("big2.jsonl.gz"));
    expect([trace.format, found.map(({ blockIds }) => blockIds)]).toEqual([
      "mooncake",
      [
        [0, 1],
        [2, 1],
      ],
    ]);
    expect(await turns({ name: "mooncake", path: traceCase("big2.jsonl.gz") })).toHaveLength(2);
    for (const name of ["bailian.jsonl", "burst.csv", "sharegpt-oai.jsonl"]) {
      const packed = file("");
      writeFileSync(packed, gzipSync(readFileSync(traceCase(name))));
      const plain = openTrace(traceCase(name), null, name === "burst.csv" ? { models: ["all"] } : {});
      const unpacked = openTrace(packed, null, name === "burst.csv" ? { models: ["all"] } : {});
      expect([...unpacked.items(0)]).toEqual([...plain.items(0)]);
      expect(unpacked.bytesRead()).toBe(unpacked.bytes);
    }
  });

  test("reads several pieces, and two concatenated files", () => {
    const text = Array.from({ length: 60_000 }, (_, i) => `line ${i}`).join("\n");
    const packed = join(folder, "pieces.gz");
    writeFileSync(packed, Buffer.concat([gzipSync(text), gzipSync("\nlast")]));
    const found = [...new TraceFile(packed).lines()];
    expect([found.length, found.at(-1)!.text]).toEqual([60_001, "last"]);
  });

  test("a gzip file that is cut, damaged or too large is refused with one line", () => {
    const packed = gzipSync("a".repeat(10_000));
    const written = (bytes: Buffer) => {
      const path = file("");
      writeFileSync(path, bytes);
      return path;
    };
    const path = written(packed);
    expect(() => new TraceFile(path, 9999)).toThrow(
      `"${path}" unpacks to more than 9999 bytes: unpack it first (gzip -d)`,
    );
    expect(new TraceFile(path, 10_000).bytes).toBe(10_000);
    for (const bytes of [
      packed.subarray(0, packed.length - 12),
      packed.subarray(0, 2),
      Buffer.from("\x1f\x8bno", "latin1"),
    ]) {
      expect(() => new TraceFile(written(bytes))).toThrow(
        /^cannot unpack ".*": it is not whole gzip data \([A-Z_]+\)$/,
      );
    }
  });
});
