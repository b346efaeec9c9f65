/** Tests traces of agents in `load` and `replay`: conversations of Weka and AgentX, and GenAI spans of OpenTelemetry. */
import { afterAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { openTrace } from "../../src/workloads/open.ts";
import { otel } from "../../src/workloads/otel.ts";
import { requests } from "../../src/workloads/requests.ts";
import { TraceError, type TraceOptions, type TraceRequest } from "../../src/workloads/trace.ts";
import { file, folder, lines, tokensOf, turns } from "../tools/load/datasets/read.ts";

afterAll(() => rmSync(folder, { recursive: true }));

const traceCase = (name: string) => new URL(`./traces/${name}`, import.meta.url).pathname;

function read(path: string, options: TraceOptions = {}, format: string | null = null) {
  const trace = openTrace(path, format, options);
  const found = [...requests(trace, "t", { seed: 5, limit: 1e9, rateScale: 1, onBad: null })];
  trace.close();
  return { trace, found };
}

describe("weka", () => {
  const call = (t: number, ids: readonly number[], more: object = {}) => ({
    ...{ t, type: "s", in: 64 * ids.length + 5, out: 7, hash_ids: ids, api_time: 1 },
    ...more,
  });
  const talk = (requests: readonly unknown[], more: object = {}) => ({ id: "c", block_size: 64, requests, ...more });
  const shape = ({ arrivalUs, conversation, follows, thinkUs }: TraceRequest) => [
    arrivalUs,
    conversation,
    follows,
    thinkUs,
  ];

  test("reads the published form: seconds, 64 tokens per id, pauses between answers and requests", async () => {
    const { trace, found } = read(traceCase("weka.jsonl"));
    expect([trace.format, trace.blockTokens]).toEqual(["weka", 64]);
    expect(trace.times!.span()).toEqual({ seconds: 4.5, unit: "s" });
    expect(found.map(shape)).toEqual([
      [0, "0", false, 0],
      [4_500_000, "0", true, 3_300_000],
    ]);
    expect(found.map(({ promptTokens, outputTokens }) => [promptTokens, outputTokens])).toEqual([
      [700, 40],
      [900, 60],
    ]);
    const sent = await turns({ name: "weka", path: traceCase("weka.jsonl") });
    expect(sent.map(({ arrivalUs, thinkUs, whole }) => [arrivalUs, thinkUs, whole])).toEqual([
      [0, 0, true],
      [4_500_000, 3_300_000, true],
    ]);
    const [first, later] = sent.map(tokensOf);
    expect(later!.slice(0, 640)).toEqual([...first!].slice(0, 640));
    expect(later!.slice(640, 700)).not.toEqual([...first!].slice(640));
  });

  test("ids are local to their conversation, unless the file declares them global", () => {
    const ids = (scope: string | undefined) => {
      const each = talk([call(0, [1, 2])], { hash_id_scope: scope });
      return read(lines(each, each)).found.map(({ blockIds }) => blockIds);
    };
    expect(ids("global")).toEqual([
      [0, 1],
      [0, 1],
    ]);
    expect(ids("local")).toEqual([
      [0, 1],
      [2, 3],
    ]);
    expect(ids(undefined)).toEqual([
      [0, 1],
      [2, 3],
    ]);
  });

  test("64-bit ids of nested requests are exact; arrays and objects over several lines can be read", () => {
    const text = JSON.stringify([talk([call(3, [1])]), talk([call(9, [2])])], null, 2);
    const { found } = read(
      file(text.replace("1\n", "18446744073709551615\n").replace("2\n", "18446744073709551614\n")),
    );
    expect(found.map(({ arrivalUs, conversation }) => [arrivalUs, conversation])).toEqual([
      [0, "0"],
      [0, "1"],
    ]);
    const pair = talk([call(0, [1]), call(1, [2])], { hash_id_scope: "global" });
    const exact = JSON.stringify(pair)
      .replace("[1]", "[18446744073709551615]")
      .replace("[2]", "[18446744073709551614]");
    expect(read(file(exact)).found.map(({ blockIds }) => blockIds)).toEqual([[0], [1]]);
  });

  test("a subagent's requests keep their place; pauses are stated or computed from the times, and are never negative", () => {
    const nested = { t: 2, type: "subagent", agent_id: "a", requests: [call(2, [9]), call(2.5, [9, 8])] };
    const path = lines(talk([call(0, [1]), nested, call(9, [1, 2], { think_time: 0.25 })]));
    expect(read(path).found.map(({ arrivalUs, thinkUs }) => [arrivalUs, thinkUs])).toEqual([
      [0, 0],
      [2_000_000, 1_000_000],
      [2_500_000, 0],
      [9_000_000, 250_000],
    ]);
  });

  test("requests without output are counted; the block size comes from the file or the user", () => {
    const path = lines(talk([call(0, [1]), call(1, [1], { out: 0 }), call(2, [1])], { block_size: 32 }));
    const { trace, found } = read(path, { hashBlockTokens: 100 });
    expect([found.length, trace.passed.text(), trace.blockTokens]).toEqual([2, "3 rows, 1 passed over: out is 0", 100]);
    expect(read(lines(talk([call(0, [1])], { block_size: 32 }))).trace.blockTokens).toBe(32);
  });

  test.each([
    [{ requests: 5 }, "a conversation such as"],
    [talk([call(0, [1])], { block_size: 16 }), '"block_size": 64, as in the first conversation, not 16'],
    [talk([call(-1, [1])]), 'in "requests": "t": seconds, a number of at least 0, not -1'],
    [talk([call(0, [1], { in: 0 })]), 'in "requests": "in": a whole number of at least 1, not 0'],
    [talk([call(0, [1], { out: "x" })]), 'in "requests": "out": a whole number, not "x"'],
    [talk([call(0, [1, 2, 3], { in: 100 })]), '"hash_ids": at most 2 ids, one per 64 tokens of in 100, not 3'],
    [talk([7]), 'in "requests": {"t": seconds, "in": tokens, "out": tokens, "hash_ids": […]}, not 7'],
  ])("%j is refused by the condition and the value", (row, expected) => {
    const path = lines(talk([call(0, [1])]), row);
    expect(() => read(path, {}, "weka")).toThrow(TraceError);
    expect(() => read(path, {}, "weka")).toThrow(expected);
  });
});

describe("otel", () => {
  const attributes = (more: object = {}) => ({
    "gen_ai.operation.name": "chat",
    "gen_ai.usage.input_tokens": 120,
    "gen_ai.usage.output_tokens": 30,
    ...more,
  });
  const span = (start_time: unknown, more: object = {}) => ({
    name: "chat m",
    start_time,
    attributes: attributes(more),
  });
  /** Converts an object to OTLP's list of keys and typed values. */
  const listed = (object: object) =>
    Object.entries(object).map(([key, value]) => ({
      key,
      value: typeof value === "number" ? { intValue: String(value) } : { stringValue: value },
    }));
  const otlp = (...spans: readonly object[]) => ({
    resourceSpans: [{ resource: {}, scopeSpans: [{ scope: { name: "s" }, spans }] }],
  });
  const shape = ({ arrivalUs, promptTokens, outputTokens }: TraceRequest) => [arrivalUs, promptTokens, outputTokens];

  test("reads an object with spans, one span per object, and an array", async () => {
    const { trace, found } = read(traceCase("otel.jsonl"));
    expect([trace.format, found.map(shape)]).toEqual(["otel", [[0, 120, 30]]]);
    expect(await turns({ name: "otel", path: traceCase("otel.jsonl") })).toMatchObject([
      { conversation: null, inputTokens: 120, outputTokens: 30, arrivalUs: 0 },
    ]);
    const two = [span("2026-05-01T10:00:00Z"), span("2026-05-01T10:00:01.5Z")];
    for (const path of [lines(...two), file(JSON.stringify(two, null, 4)), lines({ spans: two })]) {
      expect(read(path).found.map(({ arrivalUs }) => arrivalUs)).toEqual([0, 1_500_000]);
    }
  });

  test("reads OTLP JSON: typed values, nanoseconds as text, camel and snake case; sorts requests by start", () => {
    const at = (ns: string, more: object = {}) => ({ startTimeUnixNano: ns, attributes: listed(attributes(more)) });
    const rows = otlp(at("1777629600000003000"), at("1777629600000001999", { "gen_ai.usage.input_tokens": 5 }));
    const { trace, found } = read(lines(rows));
    expect([trace.format, trace.times!.span()]).toEqual(["otel", { seconds: 2e-6, unit: "dates" }]);
    expect(found.map(shape)).toEqual([
      [0, 5, 30],
      [2, 120, 30],
    ]);
    const snake = JSON.stringify(rows)
      .replaceAll("resourceSpans", "resource_spans")
      .replaceAll("scopeSpans", "scope_spans");
    expect(read(file(snake.replaceAll("startTimeUnixNano", "start_time_unix_nano"))).found.map(shape)).toEqual(
      found.map(shape),
    );
  });

  test.each([
    ["2026-05-01T10:00:00Z", 0],
    ["2026-05-01T12:00:00+02:00", 0],
    ["2026-05-01 10:00:00.000001", 1],
    ["2026-05-01T10:00:00.000002999Z", 2],
    ["1777629600000004000", 4],
    [[1777629600, 5000], 5],
  ] as const)("the start time %j is parsed", (start, us) => {
    const { found } = read(lines(span("2026-05-01T10:00:00Z"), span(start)));
    expect(found.map(({ arrivalUs }) => arrivalUs)).toEqual([0, us]);
  });

  test("spans that are not model calls are counted by reason", () => {
    const start = "2026-05-01T10:00:00Z";
    const path = lines(
      span(start),
      span(start, { "gen_ai.operation.name": "execute_tool" }),
      span(start, { "gen_ai.usage.output_tokens": undefined }),
      span(start, { "gen_ai.usage.input_tokens": 0 }),
      { ...span(start), status: { code: "ERROR" } },
      { ...span(start), status: { code: 2 } },
      { start_time: start, attributes: { "http.method": "GET" } },
      { start_time: start, attributes: { "gen_ai.usage.prompt_tokens": 3, "gen_ai.usage.completion_tokens": 4 } },
    );
    const { trace, found } = read(path);
    expect(found.map(shape)).toEqual([
      [0, 120, 30],
      [0, 3, 4],
    ]);
    expect(trace.passed.text()).toBe(
      "8 rows, 6 passed over: status is an error (2), operation is execute_tool (1), no gen_ai.usage.output_tokens (1), gen_ai.usage.input_tokens is 0 (1), no gen_ai attributes (1)",
    );
    expect(() => read(lines({ ...span(start), status: { code: "ERROR" } }))).toThrow(
      new TraceError("t: no request to send: 1 row, 1 passed over: status is an error"),
    );
  });

  test.each([
    [{ a: 1 }, "spans, such as"],
    [{ spans: [5] }, "a span, which is an object, not 5"],
    [span("2026-05-01"), 'or "start_time": a time as in 2026-05-01T10:00:00Z, not "2026-05-01"'],
    [span(undefined), "; it is missing"],
    [span(-1), "not -1"],
    [
      span("2026-05-01T10:00:00Z", { "gen_ai.usage.output_tokens": 1.5 }),
      '"gen_ai.usage.output_tokens": a whole number, not 1.5',
    ],
  ])("%j is refused by the condition and the value", (row, expected) => {
    expect(() => read(lines(row), {}, "otel")).toThrow(TraceError);
    expect(() => read(lines(row), {}, "otel")).toThrow(expected);
  });

  test("the number of calls kept for sorting is limited", () => {
    const found = [0, 1, 2].map((line) => ({ line, text: JSON.stringify(span("2026-05-01T10:00:00Z")) }));
    expect(() => [...otel(found, () => {}, 2)]).toThrow(
      new TraceError("line 2: more than 2 requests in an otel trace"),
    );
  });
});
