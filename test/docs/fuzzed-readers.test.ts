/**
 * Feeds the parsers of `load`, `check`, `stress`, `proxy`, `replay` and `timing fit` with random bytes, mutations of valid
 * input and long repetitions, in pieces of any size. Each parser must end without an internal error. Its CPU time per byte must
 * not grow with the input, and its memory must stay within a small multiple of the input.
 */
import { heapStats } from "bun:jsc";
import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { ByteBudget } from "../../src/base/growing-bytes.ts";
import { jsonObjectIn } from "../../src/base/json-object.ts";
import { recordingIn, saidIn } from "../../src/text/canned/fixtures/recording.ts";
import { parse } from "../../src/tools/check/pages/parse.ts";
import { readRuns } from "../../src/tools/fit/read.ts";
import { recordedStream } from "../../src/tools/fit/records.ts";
import { Patterns } from "../../src/tools/load/answers/answer.ts";
import { EventStream } from "../../src/tools/load/answers/event-stream.ts";
import { ClientExchange } from "../../src/tools/load/clients/exchange.ts";
import { answerIn, MessageReader, modelIn } from "../../src/tools/load/clients/grpc-wire.ts";
import { ResponseParser } from "../../src/tools/load/clients/http-response.ts";
import { PassingEvents } from "../../src/tools/proxy/events.ts";
import { WireReader } from "../../src/tools/stress/wire-reader.ts";
import { openTrace } from "../../src/workloads/open.ts";
import { TraceError } from "../../src/workloads/trace.ts";
import { times } from "../size.ts";

setDefaultTimeout(120_000);

interface FuzzCase {
  /** Valid inputs, from which mutations and repetitions are made. */
  readonly seeds: readonly string[];
  /** Reads the pieces and returns what stays in memory. May throw a TraceError, or an Error that matches `refusal`. */
  readonly read: (pieces: readonly Uint8Array[]) => unknown;
  readonly refusal?: RegExp;
}

const HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
const EVENT =
  'data: {"id":"a","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}],"usage":{"completion_tokens":1}}\n\n';
const chunked = (text: string) => `${text.length.toString(16)};x=y\r\n${text}\r\n`;
const RESPONSES = [
  `${HEAD}Transfer-Encoding: chunked\r\n\r\n${chunked(EVENT)}${chunked("data: [DONE]\n\n")}0\r\nX-a: b\r\n\r\n`,
  `HTTP/1.1 102 Processing\r\n\r\n${HEAD}\r\n${EVENT}data: [DONE]\n\n`,
  'HTTP/1.1 200 OK\r\nContent-Length: 41\r\n\r\n{"choices":[{"message":{"content":"hi"}}]}',
  'HTTP/1.1 500 No\r\nRetry-After: 1\r\nContent-Length: 29\r\n\r\n{"error":{"message":"not now"}}',
];
const EVENTS = [EVENT, ": comment\r\nevent: a\rdata:x\ndata: y\r\n\r\nid: 1\n\n", "\ufeffdata\n\ndata: [DONE]\n\n"];
const recordedPage = (name: string) =>
  readFileSync(new URL(`../tools/check/recorded/${name}`, import.meta.url), "utf8").slice(0, 3000);
const PAGES = [
  recordedPage("vllm-clean-99-rest1.txt"),
  recordedPage("triton-2.51-all_on.after.txt"),
  '# TYPE a counter\n# UNIT a_seconds seconds\na_total{b="c\\n\\"d"} 1.5e3 12.5 # {t="x"} 1 2\n# EOF\n',
  '# HELP h x\\ny\n# TYPE h histogram\nh_bucket{le="0.5"} 1\nh_bucket{le="+Inf"} 2\nh_sum 1.5\nh_count 2\n...\n',
];
const RECORD = {
  match: { path: "/v1/chat/completions", body: { messages: { equals: [{ role: "user", content: "hi" }] } } },
  answer: {
    recorded: {
      status: 200,
      headers: { "content-type": "text/event-stream" },
      broken: false,
      arrival_us: 5,
      events: [[1, EVENT]],
    },
  },
};
const RESULTS = [
  '{"mean_ttft_ms":1,"total_input_tokens":8,"completed":2,"duration":1,"total_output_tokens":9,"mean_tpot_ms":1}',
  '{"mean_ttft_ms":1,"total_input_tokens":8,"input_lens":[4],"output_lens":[2],"ttfts":[0.1],"itls":[[0.1]],"start_times":[0]}',
  '{"time_to_first_token":{"avg":1,"unit":"ms"},"input_config":{"concurrency":3},"request_count":{"avg":2}}',
  '{"metadata":{"request_start_ns":1},"metrics":{"time_to_first_token":{"value":1,"unit":"ms"}}}\n',
];
const TRACES: Readonly<Record<string, string>> = {
  mooncake: '{"timestamp": 0, "input_length": 6755, "output_length": 500, "hash_ids": [0, 1, 2]}\n',
  bailian:
    '{"chat_id": 1, "parent_chat_id": -1, "timestamp": 1.5, "input_length": 20, "output_length": 5, "hash_ids": [18446744073709551615, "a"]}\n',
  weka: '{"id": "c", "block_size": 64, "requests": [{"t": 0.5, "in": 100, "out": 4, "hash_ids": [1, 2], "api_time": 1.2}]}\n',
  otel: '{"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": "1777629600000003000", "attributes": [{"key": "gen_ai.usage.input_tokens", "value": {"intValue": "3"}}, {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "3"}}]}]}]}]}\n',
  azure: "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n",
  burstgpt:
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n",
  truth: '{"type":"request","arrivalUs":0,"promptTokens":7,"outputTokens":20}\n',
  sharegpt: '[{"conversations": [{"from": "human", "value": "a {\\"}"}, {"from": "gpt", "value": "b"}]}]',
};

const folder = mkdtempSync(join(tmpdir(), "understudy-fuzz-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
const textOf = (pieces: readonly Uint8Array[]) => Buffer.concat(pieces).toString();
const quiet = { match: () => -1, event: () => {}, tooLong: () => {} };

function traceReader(format: string): FuzzCase["read"] {
  return (pieces) => {
    const path = join(folder, `${format}.trace`);
    writeFileSync(path, Buffer.concat(pieces));
    const trace = openTrace(path, format);
    let items = 0;
    try {
      for (const item of trace.items(1)) items += item.line >= 0 ? 1 : 0;
    } finally {
      trace.close();
    }
    return items;
  };
}

function exchange(pieces: readonly Uint8Array[]): ClientExchange {
  const options = {
    dialect: "openai-chat",
    stream: true,
    patterns: new Patterns(),
    expected: 4,
    keepText: true,
  } as const;
  const found = new ClientExchange(options, () => {});
  for (const [at, piece] of pieces.entries()) if (!found.over) found.data(piece, at);
  if (!found.over) found.lost(pieces.length, "closed");
  expect(found.over).toBe(true);
  expect(found.answer.failure?.message ?? "").not.toContain("cannot be read");
  return found;
}

const READERS: Readonly<Record<string, FuzzCase>> = {
  "load's HTTP responses": {
    seeds: RESPONSES,
    read: (pieces) => {
      const parser = new ResponseParser({ head() {}, body() {}, end() {}, broken() {} });
      for (const piece of pieces) parser.push(piece);
      parser.closed();
      return parser;
    },
  },
  "load's events": {
    seeds: EVENTS,
    read: (pieces) => {
      const events = new EventStream(quiet, new ByteBudget(1 << 26));
      for (const piece of pieces) events.push(piece, 0, piece.length);
      events.end();
      return events;
    },
  },
  "load's answers": { seeds: [...RESPONSES, `${HEAD}\r\n${EVENT}${EVENT}`], read: exchange },
  "load's gRPC messages": {
    seeds: ["\0\0\0\0\x0c\x0a\x0a\x1a\x08\x0a\x03abc\x2a\x01x", "\0\0\0\0\x08\x12\x06\x2a\x04\x0a\x02hi"],
    refusal: /./,
    read: (pieces) => {
      const reader = new MessageReader(1 << 20, new ByteBudget(1 << 24));
      const take = (message: Uint8Array) => {
        answerIn(message, true);
        answerIn(message, false);
        modelIn("m", message);
      };
      for (const piece of pieces) reader.push(piece, take);
      return reader;
    },
  },
  "check's pages": { seeds: PAGES, read: (pieces) => parse(Buffer.concat(pieces)) },
  "check's pages in OpenMetrics": {
    seeds: PAGES,
    read: (pieces) => parse(Buffer.concat(pieces), { contentType: "application/openmetrics-text" }),
  },
  "stress's answers": {
    seeds: RESPONSES,
    read: (pieces) => {
      const reader = new WireReader();
      for (const piece of pieces) reader.push(piece);
      reader.ended("fin");
      return reader.failure;
    },
  },
  "proxy's events": {
    seeds: EVENTS,
    read: (pieces) => {
      const events = new PassingEvents();
      for (const piece of pieces) events.push(piece);
      return events.end();
    },
  },
  "a proxy's records": {
    seeds: [JSON.stringify(RECORD)],
    read: (pieces) => {
      const json = jsonObjectIn(textOf(pieces));
      const recorded = json === null ? "" : recordingIn(json.answer?.recorded);
      if (typeof recorded !== "string") saidIn(recorded);
      return json?.answer?.recorded === undefined ? null : recordedStream(json, "x.json");
    },
  },
  "results of benchmarks": { seeds: RESULTS, read: (pieces) => readRuns(textOf(pieces), "x.json") },
  ...Object.fromEntries(
    Object.entries(TRACES).map(([format, seed]) => [
      `traces of ${format}`,
      { seeds: [seed, seed.repeat(3)], read: traceReader(format) },
    ]),
  ),
};

/** Runs the reader. Returns null if it refuses the input with a documented error; other errors are thrown. */
function ends({ read, refusal }: FuzzCase, pieces: readonly Uint8Array[]): unknown {
  try {
    return read(pieces);
  } catch (failure) {
    if (failure instanceof TraceError) return null;
    if (refusal?.test(String(failure)) && !(failure instanceof TypeError)) return null;
    throw failure;
  }
}

const junkBytes = fc.oneof(
  fc.uint8Array({ maxLength: 30 }),
  fc
    .constantFrom(
      "\r\n\r\n",
      "null",
      "[",
      "{",
      '"',
      "\\",
      "\0",
      "1e999",
      "-1",
      "\n\n",
      "}",
      "]",
      ":",
      ",",
      '{"toString":1}',
    )
    .map((text) => Buffer.from(text)),
);
/** Returns mutations of a seed: parts removed, doubled, or replaced by junk. */
const mutated = (seeds: readonly string[]): fc.Arbitrary<Uint8Array> =>
  fc
    .record({
      seed: fc.constantFrom(...seeds),
      edits: fc.array(
        fc.record({ at: fc.nat(), length: fc.nat({ max: 40 }), junk: junkBytes, doubles: fc.boolean() }),
        { maxLength: 5 },
      ),
    })
    .map(({ seed, edits }) => {
      let bytes = Buffer.from(seed);
      for (const { at, length, junk, doubles } of edits) {
        const from = at % (bytes.length + 1);
        const kept = doubles ? bytes.subarray(from, from + length) : Buffer.alloc(0);
        bytes = Buffer.concat([bytes.subarray(0, from), kept, junk, kept, bytes.subarray(from + length)]);
      }
      return bytes;
    });

function cutAt(bytes: Uint8Array, cuts: readonly number[]): Uint8Array[] {
  const places = [...new Set(cuts.map((at) => at % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...places].map((from, i) => bytes.slice(from, places[i] ?? bytes.length));
}

/** JSON values that replace others, so that names and structure stay. */
const JUNK_VALUES = ["null", "[]", "{}", "[null]", "5", '"x"', '{"toString":1,"valueOf":1}', "-1e300"];
const otherValues = (seed: string, picks: readonly number[]): string => {
  let at = 0;
  return seed.replace(/:(\s*)("(?:[^"\\]|\\.)*"|\[|\{|[-\d.e]+|true|false|null)/g, (whole, blank, value) => {
    const pick = picks[at++ % picks.length]!;
    return pick >= JUNK_VALUES.length || /[[{]/.test(value) ? whole : `:${blank}${JUNK_VALUES[pick]}`;
  });
};

test.each(Object.entries(READERS))(
  "%s: ends for random bytes, mutations, cuts at any place and any JSON values",
  (_, reader) => {
    const cuts = fc.array(fc.nat(), { maxLength: 6 });
    fc.assert(
      fc.property(
        fc.oneof(
          { weight: 1, arbitrary: fc.uint8Array({ maxLength: 400 }) },
          { weight: 4, arbitrary: mutated(reader.seeds) },
        ),
        cuts,
        (bytes, cuts) => {
          ends(reader, cutAt(bytes, cuts));
        },
      ),
      { numRuns: times(600) },
    );
    const picks = fc.array(fc.nat({ max: 2 * JUNK_VALUES.length }), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(fc.constantFrom(...reader.seeds), picks, (seed, picks) => {
        ends(reader, [Buffer.from(otherValues(seed, picks))]);
      }),
      { numRuns: times(300) },
    );
  },
);

/** Sizes of the short and the long input in bytes. Quadratic work costs 16 times as much per byte in the long one. */
const [SHORT, LONG] = [1 << 15, 1 << 19];
const GROWTH_MOST = 6;
/** CPU times below this are noise. */
const NOISE_MS = 8;
/** Limit of CPU time per byte. `JSON.parse` and a decoder need a few nanoseconds. */
const NS_PER_BYTE_MOST = 3000;
const HELD_PER_BYTE_MOST = 64;
const HELD_FREE = 4 << 20;

function cpuMs(work: () => void): number {
  const { user, system } = process.cpuUsage();
  work();
  const after = process.cpuUsage();
  return (after.user + after.system - user - system) / 1000;
}

const heldBytes = (): number => {
  Bun.gc(true);
  const { heapSize, extraMemorySize } = heapStats();
  return heapSize + extraMemorySize;
};

/** Makes inputs of any length: the start of a seed, then a part of it repeated, then the rest, in pieces. */
const long = (seeds: readonly string[]) =>
  fc
    .record({
      seed: fc.constantFrom(...seeds),
      from: fc.nat(),
      length: fc.oneof(fc.constantFrom(1, 2), fc.integer({ min: 1, max: 120 })),
      junk: fc.oneof(fc.constant(new Uint8Array()), junkBytes),
      piece: fc.constantFrom(1 << 20, 60_000, 1000, 37),
    })
    .map(({ seed, from, length, junk, piece }) => {
      const bytes = Buffer.from(seed);
      const at = from % bytes.length;
      const part = Buffer.concat([bytes.subarray(at, at + length), junk]);
      return (size: number): Uint8Array[] => {
        const all = Buffer.concat([bytes.subarray(0, at), Buffer.alloc(size, part), bytes.subarray(at)]);
        return Array.from({ length: Math.ceil(all.length / piece) }, (_, i) =>
          all.subarray(i * piece, (i + 1) * piece),
        );
      };
    });

test.each(Object.entries(READERS))("%s: time per byte does not grow, and memory stays small", (name, reader) => {
  fc.assert(
    fc.property(long(reader.seeds), (of) => {
      const [short, whole] = [of(SHORT), of(LONG)];
      // Take the minimum of several runs, because other programs and the compiler take time, too.
      const best = (pieces: readonly Uint8Array[], tries: number) =>
        Math.min(...Array.from({ length: tries }, () => cpuMs(() => void ends(reader, pieces))));
      let ms = best(whole, 1);
      const bound = (shortMs: number) => Math.max(NOISE_MS, GROWTH_MOST * (LONG / SHORT) * shortMs);
      let shortMs = best(short, 2);
      for (let tries = 0; tries < 3 && ms > bound(shortMs); tries++) {
        ms = Math.min(ms, best(whole, 1));
        shortMs = Math.max(shortMs, best(short, 2));
      }
      expect(ms, `${name}: ${shortMs} ms for the short one`).toBeLessThan(bound(shortMs));
      expect((ms * 1e6) / LONG, name).toBeLessThan(NS_PER_BYTE_MOST);
      const before = heldBytes();
      const kept = ends(reader, whole);
      const held = heldBytes() - before;
      expect(kept).not.toBe(whole);
      expect(held, name).toBeLessThan(HELD_FREE + HELD_PER_BYTE_MOST * LONG);
    }),
    { numRuns: times(30), endOnFailure: true },
  );
});

test("the time per digit of an invalid long number does not grow with its length", () => {
  const of = (digits: number) => cpuMs(() => void parse(`a ${"1".repeat(digits)}x\n`));
  const short = Math.max(of(2000), of(2000));
  expect(of(64_000)).toBeLessThan(Math.max(NOISE_MS, 6 * 32 * short));
});
