/** Tests that the client reads an answer completely, in any pieces. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Patterns } from "../../../src/tools/load/answers/answer.ts";
import { adjusted, distributions, tpotMs } from "../../../src/tools/load/measures.ts";
import { flatKeys } from "../../../src/tools/load/vllm-keys.ts";
import { bytesOf, chatEvent, chunk, END, event, HEAD, read, recordOf, usageEvent, workedExample } from "./played.ts";

const FLAT = {
  dialect: "openai-chat",
  metrics: ["ttft", "tpot", "itl", "e2el"],
  percentiles: [99],
  slo: null,
  concurrency: null,
  rate: Number.POSITIVE_INFINITY,
  detailed: true,
  durationS: 1,
} as const;

describe("the worked example", () => {
  const played = (counts: boolean, patterns = new Patterns()) =>
    read(
      workedExample(counts).map(([ms, text]) => [ms * 1000, bytesOf(text)] as const),
      { patterns },
    );

  test.each([true, false])("our definitions (tokens per chunk known: %p)", (counts) => {
    const { exchange, ended } = played(counts);
    const record = recordOf(exchange);
    expect([ended, record.failure, record.outputTokens, record.inputTokens]).toEqual([true, null, 5, 7]);
    const { ttft, itl, icl, tpot, e2el, e2el_eof: eof } = distributions([record], [50, 99]);
    expect([ttft.mean, e2el.mean, eof.mean, tpot.mean]).toEqual([150, 300, 311, 37.5]);
    expect([icl.count, icl.min, icl.max]).toEqual([3, 50, 50]);
    // "BC" is two tokens, of which the first has the gap.
    expect([itl.count, itl.mean, itl.min]).toEqual(counts ? [4, 37.5, 0] : [3, 50, 50]);
  });

  test("vLLM's keys with vLLM's definitions", () => {
    const keys = flatKeys([recordOf(played(true).exchange)], FLAT);
    expect(keys.ttfts).toEqual([0.15]);
    expect((keys.itls as number[][])[0]!.map((gap) => Math.round(gap * 1000))).toEqual([50, 50, 50]);
    expect([keys.mean_ttft_ms, keys.mean_tpot_ms, keys.mean_e2el_ms]).toEqual([150, 37.5, 300]);
    expect([keys.total_output_tokens, keys.output_lens, keys.max_output_tokens_per_s]).toEqual([5, [5], 4]);
  });

  test("an answer that matches patterns is read like the first answer", () => {
    const patterns = new Patterns();
    const [first, second] = [played(true, patterns), played(true, patterns)].map(({ exchange }) => recordOf(exchange));
    expect(second).toEqual(first!);
  });
});

/** A random answer of tokens, framed as servers may do it. */
const answers = fc.record({
  tokens: fc.array(
    fc.record({ text: fc.string({ unit: "binary", maxLength: 6 }), count: fc.integer({ min: 1, max: 3 }) }),
    { minLength: 1, maxLength: 8 },
  ),
  counts: fc.boolean(),
  lineEnd: fc.constantFrom("\n\n", "\r\n\r\n", "\r\r"),
  comments: fc.boolean(),
  joined: fc.boolean(),
  length: fc.boolean(),
  mark: fc.boolean(),
});

function bytesOfAnswer({
  tokens,
  counts,
  lineEnd,
  comments,
  joined,
  length,
  mark,
}: typeof answers extends fc.Arbitrary<infer A> ? A : never) {
  let so = 0;
  const eventOf = (delta: unknown) => event(chatEvent({ delta, ...(counts ? { so } : {}) }), lineEnd);
  const events = [eventOf({ role: "assistant", content: "" })];
  for (const { text, count } of tokens) {
    so += count;
    events.push(eventOf({ content: text }));
    if (comments) events.push(`: ping${lineEnd}`);
  }
  events.push(event(chatEvent({ finish: "stop" }), lineEnd), event(usageEvent(so), lineEnd), event("[DONE]", lineEnd));
  // An empty event is ignored, and nothing counts after the end.
  if (comments) events.push(`data:${lineEnd}${lineEnd}`, eventOf({ content: "late" }));
  if (comments) events.splice(1, 0, `data${lineEnd}${lineEnd}`);
  // The standard's byte order mark, which is not part of the first event.
  if (mark) events[0] = `\ufeff${events[0]}`;
  const body = events.join("");
  if (length) {
    const head = `HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`;
    return { bytes: bytesOf(head + body), so };
  }
  const framed = joined ? chunk(body) : events.map(chunk).join("");
  return { bytes: bytesOf(HEAD + framed + END), so };
}

test("any split of an answer gives the same chunks, tokens and text", () => {
  // Patterns that the first answer taught are used for the second answer of a run.
  fc.assert(
    fc.property(answers, fc.array(fc.nat(), { maxLength: 12 }), fc.boolean(), (answer, cuts, keepText) => {
      const { bytes, so } = bytesOfAnswer(answer);
      const at = [0, ...cuts.map((cut) => cut % bytes.length), bytes.length].sort((a, b) => a - b);
      const pieces = at.slice(1).map((to, i) => [i, bytes.slice(at[i], to)] as const);
      const patterns = new Patterns();
      for (const parts of [[[0, bytes] as const], pieces]) {
        const { exchange } = read(parts, { patterns, keepText });
        const record = recordOf(exchange);
        expect(record.failure).toBeNull();
        expect([record.chunkUs.length, record.outputTokens, record.inputTokens]).toEqual([answer.tokens.length, so, 7]);
        if (answer.counts) expect([...record.chunkTokens]).toEqual(answer.tokens.map(({ count }) => count));
        if (keepText) expect(exchange.answer.text).toBe(answer.tokens.map(({ text }) => text).join(""));
        expect([exchange.keepAlive, record.done]).toEqual([true, true]);
      }
    }),
  );
});

test("one byte at a time; all events of one read share its time", () => {
  const text = workedExample(true)
    .map(([, piece]) => piece)
    .join("");
  const single = read([...bytesOf(text)].map((byte, i) => [i, Uint8Array.of(byte)] as const));
  expect(recordOf(single.exchange).chunkUs.length).toBe(4);
  const whole = recordOf(read([[40, bytesOf(text)]]).exchange);
  expect([...whole.chunkUs]).toEqual([40, 40, 40, 40]);
});

test("random bytes never make it throw, or wait after the end", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 6 }), fc.boolean(), (pieces, headed) => {
      const all = [...(headed ? [bytesOf(HEAD)] : []), ...pieces];
      const { ended } = read(
        all.map((bytes, i) => [i, bytes] as const),
        { closes: true },
      );
      expect(ended).toBe(true);
    }),
  );
});

const failing: readonly (readonly [name: string, text: string, kind: string | null, message: RegExp])[] = [
  [
    "an error event",
    HEAD + chunk(event({ error: { message: "out of memory", code: 500 } })) + END,
    "error event",
    /out of memory/,
  ],
  [
    "an error event after tokens",
    HEAD + chunk(event(chatEvent({ delta: { content: "A" } })) + event({ error: "gone" })) + END,
    "error event",
    /gone/,
  ],
  ["garbage JSON", HEAD + chunk('data: {"choices": [\n\n') + END, "malformed", /not a JSON object: \{"choices"/],
  ["HTML", `HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>`, "malformed", /text\/html/],
  ["no HTTP", "SSH-2.0-OpenSSH\r\n\r\n", "malformed", /not HTTP.*SSH/],
  ["a chunk without size", `${HEAD}data: {}\n\n`, "malformed", /no size/],
  [
    "no token",
    HEAD + chunk(event(chatEvent({ delta: { role: "assistant", content: "" } })) + event("[DONE]")) + END,
    "no token",
    /first token/,
  ],
  ["cut in the middle", HEAD + chunk(event(chatEvent({ delta: { content: "A" } }))), "mid-stream end", /middle/],
  ["closed before an answer", "", "mid-stream end", /before any answer/],
  [
    "an end without finish_reason and [DONE]",
    HEAD + chunk(event(chatEvent({ delta: { content: "A" } }))) + END,
    "mid-stream end",
    /without finish_reason/,
  ],
  ["no [DONE]", HEAD + chunk(event(chatEvent({ delta: { content: "A" }, finish: "length" }))) + END, null, /^$/],
  [
    "401",
    `HTTP/1.1 401 Unauthorized\r\nContent-Length: 24\r\n\r\n{"error":"Unauthorized"}`,
    "status",
    /^HTTP 401: Unauthorized$/,
  ],
  [
    "429 with Retry-After",
    `HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nContent-Length: 4\r\n\r\nslow`,
    "status",
    /^HTTP 429 \(Retry-After: 3\): slow$/,
  ],
];

test.each(failing)("%s gives the expected failure or none", (_, text, kind, message) => {
  const { exchange, ended } = read([[5, bytesOf(text)]], { closes: true });
  expect([ended, exchange.answer.failure?.kind ?? null]).toEqual([true, kind as never]);
  expect(exchange.answer.failure?.message ?? "").toMatch(message);
});

describe("cases that misled other tools", () => {
  const timed = (...pieces: readonly (readonly [ms: number, event: unknown])[]) =>
    recordOf(
      read([
        [0, bytesOf(HEAD)],
        ...pieces.map(([ms, value]) => [ms * 1000, bytesOf(chunk(event(value)))] as const),
        [900_000, bytesOf(chunk(event(chatEvent({ finish: "stop" })) + event("[DONE]")) + END)],
      ]).exchange,
    );
  const token = (content: string, so?: number) =>
    chatEvent({ delta: { content }, ...(so === undefined ? {} : { so }) });

  test("a first chunk of several tokens does not shorten the time per token", () => {
    const record = timed([100, token("ABC", 3)], [150, token("D", 4)], [200, token("E", 5)], [210, usageEvent(5)]);
    expect(tpotMs(record)).toBe(50);
  });

  test("a late usage chunk moves neither the first token nor the end", () => {
    const record = timed([100, token("A")], [150, token("B")], [800, usageEvent(2)]);
    expect([record.firstUs, record.lastUs, record.endUs]).toEqual([100_000, 150_000, 900_000]);
  });

  test("usage decides on the number of tokens, not the number of chunks", () => {
    expect(timed([100, token("A")], [150, token("B")], [160, usageEvent(9)]).outputTokens).toBe(9);
    const silent = timed([100, token("A")], [150, token("B")]);
    expect([silent.outputTokens, silent.usage]).toEqual([2, false]);
  });

  test("an answer without tokens has no TTFT; failed answers are in the adjusted tail", () => {
    const good = Array.from({ length: 9 }, (_, i) => timed([100 + i, token("A")], [150, usageEvent(1)]));
    const empty = timed([100, chatEvent({ delta: { role: "assistant", content: "" } })], [150, usageEvent(0)]);
    const { ttft, itl } = distributions([...good, empty], [50, 99]);
    expect([ttft.count, ttft.min, itl.count]).toEqual([9, 100, 0]);
    expect(adjusted([...good, empty], [50, 99]).ttft).toEqual({ p50: 104.5, p99: null });
  });

  test("reasoning and tool calls are output; gaps never include the time to the first token", () => {
    const record = timed(
      [100, chatEvent({ delta: { reasoning_content: "hm" } })],
      [130, chatEvent({ delta: { tool_calls: [{ index: 0 }] } })],
      [160, token("A")],
      [170, usageEvent(3)],
    );
    expect([record.firstUs, record.chunkUs.length]).toEqual([100_000, 3]);
    expect(distributions([record], [50]).icl.max).toBe(30);
  });
});
