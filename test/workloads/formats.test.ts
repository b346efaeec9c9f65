/** Tests the readers of all trace formats, and the line numbers in their errors. */
import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { type Element, elements } from "../../src/workloads/elements.ts";
import { TraceFile } from "../../src/workloads/lines.ts";
import { openTrace } from "../../src/workloads/open.ts";
import { requests } from "../../src/workloads/requests.ts";
import { estimateTokens } from "../../src/workloads/sharegpt.ts";
import { type BadLine, TraceError, type TraceRequest } from "../../src/workloads/trace.ts";

const folder = mkdtempSync(join(tmpdir(), "understudy-traces-"));
afterAll(() => rmSync(folder, { recursive: true }));

function file(text: string, name = "trace"): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

interface Options {
  readonly format?: string;
  readonly skip?: boolean;
  readonly limit?: number;
  readonly rateScale?: number;
}

/** Returns all requests of a trace and the bad lines that were skipped. */
function read(path: string | null, { format, skip = false, limit = 1e9, rateScale = 1 }: Options = {}) {
  const bad: BadLine[] = [];
  const trace = openTrace(path, format ?? null);
  const onBad = skip ? (line: BadLine) => bad.push(line) : null;
  const found = [...requests(trace, "t", { seed: 5, limit, rateScale, onBad })];
  trace.close();
  return { format: trace.format, pace: trace.pace, found, bad, passedOver: trace.passed.count };
}

function refusal(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (!(error instanceof TraceError)) throw error;
    expect(error.message).not.toContain("\n");
    return error.message;
  }
  throw new Error("it was taken");
}

const shape = ({ arrivalUs, promptTokens, outputTokens, blockIds }: TraceRequest) => [
  arrivalUs,
  promptTokens,
  outputTokens,
  blockIds,
];
const mooncakeLine = (timestamp: number, input: number, output: number, ids: number[]) =>
  JSON.stringify({ timestamp, input_length: input, output_length: output, hash_ids: ids });
const conversation = (...values: string[]) => ({
  id: "x",
  conversations: values.map((value, i) => ({ from: i % 2 ? "gpt" : "human", value })),
});

describe("formats", () => {
  test("mooncake: reads milliseconds, lengths and ids", () => {
    const text = `${mooncakeLine(27482, 1000, 5, [46, 47])}\n\n${mooncakeLine(27482.5, 513, 1, [46, 9])}\r\n`;
    const { format, pace, found } = read(file(text));
    expect([format, pace]).toEqual(["mooncake", { kind: "open" }]);
    expect(found.map(shape)).toEqual([
      [0, 1000, 5, [0, 1]],
      [500, 513, 1, [0, 2]],
    ]);
    expect(found.map(({ line }) => line)).toEqual([1, 3]);
  });

  test("burstgpt: reads rows of GPT-4 with an answer, by the header's columns, and counts the others", () => {
    const text =
      "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n" +
      "5,,1,ChatGPT,472,18,490,API log\n45.5,7,3,GPT-4,30,18,48,Conversation log\n46,,1,GPT-4,30,0,30,API log\n47,,1,GPT-4,5,1,6,API log\n";
    const { format, found, passedOver } = read(file(text));
    expect([format, passedOver]).toEqual(["burstgpt", 2]);
    expect(found.map(shape)).toEqual([
      [0, 30, 18, null],
      [1_500_000, 5, 1, null],
    ]);
    expect(found.map(({ line }) => line)).toEqual([3, 5]);
  });

  test("azure: reads a header, times of 100 ns and CRLF, also with a byte order mark and over midnight", () => {
    const text =
      "\uFEFFTIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 23:59:59.9799600,4808,10\r\n2023-11-17 00:00:00.0000004,7,1\r\n";
    const { format, found } = read(file(text));
    expect(format).toBe("azure");
    expect(found.map(shape)).toEqual([
      [0, 4808, 10, null],
      [20040, 7, 1, null],
    ]);
  });

  test("sharegpt: reads the first two turns at four bytes per token, and skips conversations without an answer", () => {
    const text = JSON.stringify(
      [conversation("a".repeat(9), 'é{["\\', "more"), conversation("alone"), conversation("", "x")],
      null,
      1,
    );
    const { format, pace, found, passedOver } = read(file(text));
    expect([format, pace, passedOver]).toEqual(["sharegpt", { kind: "closed", concurrency: 256 }, 1]);
    expect(found.map(shape)).toEqual([
      [0, 3, 2, null],
      [0, 1, 1, null],
    ]);
    expect(estimateTokens("äöü")).toBe(2);
  });

  test("sharegpt with a rate: times are drawn from the seed, rise, and have that mean", () => {
    const text = JSON.stringify(Array.from({ length: 4000 }, () => conversation("a", "b")));
    const path = file(text);
    const { pace, found } = read(path, { format: "sharegpt:rate=50" });
    expect(pace).toEqual({ kind: "open" });
    expect(found.at(-1)!.arrivalUs / 4000).toBeWithin(18_500, 21_500);
    expect(found).toEqual(read(path, { format: "sharegpt:rate=50" }).found);
  });

  test("truth: reads requests of the truth log in order of arrival", () => {
    const row = (arrivalUs: number, outputTokens: number) =>
      JSON.stringify({ type: "request", engine: 0, arrivalUs, promptTokens: 7, outputTokens });
    const head = '{"type":"header","schema":1}\n{"type":"step","engine":0,"step":1}';
    const { format, found, passedOver } = read(
      file([head, row(900, 3), row(400, 2), row(500, 0), '{"type":"end"}'].join("\n")),
    );
    expect([format, passedOver]).toEqual(["truth", 1]);
    expect(found.map(shape)).toEqual([
      [0, 7, 2, null],
      [500, 7, 3, null],
    ]);
    expect(refusal(() => read(file('{"type":"header","schema":9}\n')))).toBe(
      "t:1: expected a truth log of schema 1, not 9",
    );
  });

  test("synthetic: generates fixed lengths and ranges, in a closed loop and as Poisson arrivals", () => {
    const closed = read(null, { format: "synthetic:isl=10,osl=20-22,concurrency=3,requests=500" });
    expect(closed.pace).toEqual({ kind: "closed", concurrency: 3 });
    expect(closed.found.length).toBe(500);
    expect(new Set(closed.found.map((request) => request.promptTokens))).toEqual(new Set([10]));
    expect(new Set(closed.found.map((request) => request.outputTokens))).toEqual(new Set([20, 21, 22]));
    expect(read("synthetic:isl=10,osl=20-22,concurrency=3,requests=500")).toEqual(closed);
    const open = read(null, { format: "synthetic:isl=10,osl=1,rate=20,requests=4000" });
    expect(open.found.at(-1)!.arrivalUs / 4000).toBeWithin(46_000, 54_000);
    const other = read(null, { format: "synthetic:isl=10,osl=1,rate=20,requests=4000,seed=6" });
    expect(other.found).not.toEqual(open.found);
    const tuned = read(null, { format: "synthetic:isl=10,osl=1,rate=20,requests=400,adapters=3" });
    expect(new Set(tuned.found.map(({ adapter }) => adapter))).toEqual(new Set([1, 2, 3]));
    expect(open.found.every(({ adapter }) => adapter === 0)).toBe(true);
  });

  test("--limit ends the trace, and --rate-scale divides its times", () => {
    const text = [0, 1000, 2000, 3000].map((ms) => mooncakeLine(ms, 5, 1, [1])).join("\n");
    const { found } = read(file(text), { limit: 3, rateScale: 4 });
    expect(found.map(({ arrivalUs }) => arrivalUs)).toEqual([0, 250_000, 500_000]);
  });
});

describe("bad input", () => {
  const good = mooncakeLine(5, 600, 1, [1, 2]);
  test.each([
    ["{", "a JSON object such as"],
    ["7", '"timestamp"'],
    [mooncakeLine(-1, 1, 1, []), '"timestamp"'],
    [mooncakeLine(5, 0, 1, []), '"input_length"'],
    [mooncakeLine(5, 1, 1.5, []), '"output_length"'],
    [mooncakeLine(5, 512, 1, [1, 2]), "at most 1 ids, one per 512 tokens of input_length 512, not 2"],
    [mooncakeLine(5, 512, 1, [-1]), '"hash_ids": whole numbers from 0 to 2^64 - 1, or texts, not -1'],
    [mooncakeLine(4, 600, 1, [1, 2]), "a time not before that of the request ahead of it; it is 1 ms earlier"],
  ])("the mooncake line is refused: %s", (line, expected) => {
    const path = file(`${good}\n${line}\n${good}\n`);
    expect(refusal(() => read(path))).toStartWith("t:2: expected ");
    expect(refusal(() => read(path))).toContain(expected);
    const { found, bad } = read(path, { skip: true });
    expect(found.length).toBe(2);
    expect(bad.map((fault) => fault.line)).toEqual([2]);
  });

  test.each([
    ["2023-11-16 18:17:03.9,1", "a time, prompt tokens and output tokens"],
    ["2023-13-45 18:17:03,1,1", "a time, prompt tokens and output tokens"],
    ["2023-11-16 18:17:03,0,1", "token counts of at least 1"],
    ["2023-11-16 18:17:02,1,1", "a time not before"],
  ])("the azure line is refused: %s", (line, expected) => {
    const path = file(`TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,5,1\n${line}\n`);
    expect(refusal(() => read(path))).toContain(`t:3: expected ${expected}`);
  });

  test("an azure file without its header is refused if the format is stated", () => {
    const path = file("2023-11-16 18:17:03,5,1\n");
    expect(refusal(() => read(path, { format: "azure" }))).toContain("t:1: expected the header TIMESTAMP,");
  });

  test.each([
    ['[{"conversations": [{"from": "human"}, 3]}]', 1],
    ['[\n{"conversations": "x"}]', 2],
    ['[{"conversations": []}, 5]', 1],
    ['[\n\n{"conversations": [', 3],
  ])("the sharegpt file is refused: %s", (text, line) => {
    const wrong = refusal(() => read(file(text), { format: "sharegpt" }));
    expect(wrong).toStartWith(`t:${line}: expected a conversation such as`);
  });

  test.each([
    ["", null, "the trace is empty"],
    ["\n \n", "mooncake", "t: the trace is empty"],
    ["a,b\n1,2\n", null, "its format is not recognised; state it with --format (mooncake"],
    ["x\n", "sonnet", "--format sonnet: unknown format, must be one of mooncake"],
    ["x\n", "mooncake:rate=2", "--format mooncake takes nothing after the colon"],
    ["x\n", "sharegpt:rate=0", "rate must be a number above 0"],
    ["x\n", "sharegpt:rate=1,concurrency=1", "takes concurrency or rate, not both"],
    ["x\n", "sharegpt:speed=1", 'has concurrency, rate, not "speed"'],
    ["x\n", "synthetic:isl=1,osl=1,rate=1", "must not be given"],
  ])("the file %j is refused with format %s", (text, format, wrong) => {
    expect(refusal(() => read(file(text), format === null ? {} : { format }))).toContain(wrong);
  });

  test.each([
    ["synthetic", "isl is missing"],
    ["synthetic:isl=1", "osl is missing"],
    ["synthetic:isl=1,osl=1", "needs concurrency or rate"],
    ["synthetic:isl=0,osl=1,rate=1", 'isl must be tokens, such as 1000 or 500-1500, not "0"'],
    ["synthetic:isl=9-3,osl=1,rate=1", 'not "9-3"'],
    ["synthetic:isl=9,osl=1,rate=1,adapters=4096", "adapters: at most 4095, not 4096"],
    ["synthetic:isl=1,isl=1", "isl is given twice"],
    ["synthetic:isl=1,osl=1,rate=1,requests=x", "requests must be a whole number above 0"],
    ["mooncake", "no trace: give a file"],
  ])("a command without file is refused with format %s", (format, wrong) => {
    expect(refusal(() => read(null, { format }))).toContain(wrong);
  });

  test("a file that cannot be read is refused", () => {
    expect(refusal(() => read(join(folder, "nowhere")))).toBe(`cannot read "${join(folder, "nowhere")}" (ENOENT)`);
    expect(refusal(() => read(folder, { format: "mooncake" }))).toBe(`cannot read "${folder}" (EISDIR)`);
  });

  test("a file without a valid row is refused", () => {
    expect(refusal(() => read(file("x\ny\n"), { format: "mooncake", skip: true }))).toBe("t: no good line, 2 bad ones");
  });
});

describe("pieces", () => {
  test("reads lines longer than a piece of the file, and loses none between pieces", () => {
    const lines = Array.from({ length: 300 }, (_, i) => "é".repeat((i * 7919) % 9000) + i);
    const found = [...new TraceFile(file(lines.join("\n"))).lines()];
    expect(found.map(({ text }) => text)).toEqual(lines);
  });

  test("reads elements of an array, wherever its bytes are cut", () =>
    fc.assert(
      fc.property(
        fc.array(fc.dictionary(fc.string(), fc.jsonValue())),
        fc.integer({ min: 1, max: 40 }),
        (values, size) => {
          const bytes = Buffer.from(JSON.stringify(values, null, 1));
          const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
            bytes.subarray(i * size, (i + 1) * size),
          );
          const found = [...elements(pieces)] as Element[];
          expect(found.map(({ text }) => JSON.parse(text!))).toEqual(JSON.parse(JSON.stringify(values)));
        },
      ),
    ));

  test("text that is not an object is one bad element, and the next object is found", () => {
    const found = (text: string) => [...elements([Buffer.from(text)])].map((each) => each.text ?? each.line);
    expect(found('[{"a": 1},\n 5,\n "x, {y} \\" z", null\n,{"b": 2}]')).toEqual(['{"a": 1}', 2, 3, 3, '{"b": 2}']);
    expect(found("no such\nthing")).toEqual([1, 2]);
  });
});
