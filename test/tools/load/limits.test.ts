/**
 * Tests the limits of docs/reference/limits.md on the memory of `load`, `check`, `replay`, `timing fit`, and of the reference client of
 * `stress`.
 */
import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { WallClock } from "../../../src/base/clock.ts";
import { ByteBudget } from "../../../src/base/growing-bytes.ts";
import { fileAtMost, textAtMost } from "../../../src/base/read-at-most.ts";
import { sendMix } from "../../../src/tools/check/send-mix.ts";
import { ANSWERS_HELD_MOST, OUTPUT_MOST, Patterns } from "../../../src/tools/load/answers/answer.ts";
import { EVENT_LIMIT, EventStream } from "../../../src/tools/load/answers/event-stream.ts";
import { ERROR_LIMIT, WHOLE_LIMIT } from "../../../src/tools/load/clients/exchange.ts";
import { MessageReader } from "../../../src/tools/load/clients/grpc-wire.ts";
import { tensorsOf } from "../../../src/tools/load/requests/tensors.ts";
import { FETCHED_MOST, fetchText, ServerQueries } from "../../../src/tools/load/server.ts";
import { compareWithTruth, ServerTruthSource } from "../../../src/tools/load/truth.ts";
import { WireReader } from "../../../src/tools/stress/wire-reader.ts";
import { elements } from "../../../src/workloads/elements.ts";
import { ENDLESS_BYTES, LINE_LIMIT, TraceFile } from "../../../src/workloads/lines.ts";
import { SORTED_MOST } from "../../../src/workloads/sorted.ts";
import { truth } from "../../../src/workloads/truth.ts";
import { main } from "../../program.ts";
import { bytesOf, read, recordOf } from "./played.ts";

setDefaultTimeout(60_000);
const HEAD = "HTTP/1.1 200 OK\r\n";
const CHUNKED = `${HEAD}Transfer-Encoding: chunked\r\n\r\n`;
const MIB = 2 ** 20;
const GOOD = '{"choices":[{"delta":{"content":"a"},"message":{"content":"a"},"finish_reason":"stop"}]}';

function failureOf(text: string | Uint8Array, options: Parameters<typeof read>[1] = {}) {
  const bytes = typeof text === "string" ? bytesOf(text) : text;
  return read([[1, bytes]], { closes: true, ...options }).exchange.answer.failure;
}

test("a head, a chunk's line and a trailer may have 64 KiB, and an answer 100 interim answers", () => {
  const end = `data: ${GOOD}\n\ndata: [DONE]\n\n`;
  const chunk = `${end.length.toString(16)}\r\n${end}\r\n0\r\n`;
  const x = (more: number) => "x".repeat(65_536 + more);
  const interim = "HTTP/1.1 102 Processing\r\n\r\n";
  const rows: readonly (readonly [fits: string, tooMuch: string])[] = [
    [`${HEAD}X: ${x(-HEAD.length - 8)}\r\n\r\n${end}`, `${HEAD}X: ${x(0)}\r\n\r\n${end}`],
    [`${CHUNKED}1;${x(-8)}\r\n\n\r\n${chunk}\r\n`, `${CHUNKED}1;${x(0)}\r\n\n\r\n${chunk}\r\n`],
    [`${CHUNKED}${chunk}X: ${x(-8)}\r\n\r\n`, `${CHUNKED}${chunk}X: ${x(0)}\r\n\r\n`],
    [`${interim.repeat(100)}${HEAD}\r\n${end}`, `${interim.repeat(101)}${HEAD}\r\n${end}`],
    [`${HEAD}\r\n${end}`, `HTTP/1.1 101 Switching Protocols\r\n\r\n${HEAD}\r\n${end}`],
  ];
  for (const [fits, tooMuch] of rows) {
    expect(failureOf(fits)).toBeNull();
    expect(failureOf(tooMuch)).toMatchObject({ kind: "malformed" });
  }
});

test("an event may have 4 MiB, an unstreamed answer and a message 16 MiB", () => {
  const event = (bytes: number) => `data: ${GOOD.padEnd(bytes)}\n\ndata: [DONE]\n\n`;
  expect(EVENT_LIMIT).toBe(4 * MIB);
  expect(failureOf(`${HEAD}\r\n${event(EVENT_LIMIT - 10)}`)).toBeNull();
  const pieces = Array.from({ length: 6 }, () => [1, Buffer.alloc(MIB, "a")] as const);
  const late = read([[0, bytesOf(`${HEAD}\r\ndata: `)], ...pieces]);
  expect(late.exchange.over).toBe(true);
  expect(late.exchange.answer.failure).toMatchObject({ kind: "malformed", message: expect.stringContaining("4 MiB") });
  expect(WHOLE_LIMIT).toBe(16 * MIB);
  const whole = (bytes: number) => failureOf(`${HEAD}\r\n${GOOD.padEnd(bytes)}`, { stream: false });
  expect(whole(WHOLE_LIMIT)).toBeNull();
  expect(whole(WHOLE_LIMIT + 1)).toMatchObject({ kind: "malformed", message: expect.stringContaining("16 MiB") });
  const message = (bytes: number) => {
    const head = Buffer.alloc(5);
    head.writeUInt32BE(bytes, 1);
    let taken = 0;
    const reader = new MessageReader(16 * MIB, new ByteBudget(ANSWERS_HELD_MOST));
    for (const piece of [head, Buffer.alloc(bytes)])
      reader.push(piece, ({ length }) => {
        taken += length;
      });
    return taken;
  };
  expect(message(16 * MIB)).toBe(16 * MIB);
  expect(() => message(16 * MIB + 1)).toThrow("more than");
});

test("1 MiB of an error is read, 16 KiB are kept", () => {
  const of = (bytes: number) =>
    read([[1, bytesOf(`HTTP/1.1 500 No\r\nContent-Length: 9999999\r\n\r\n${"e".repeat(bytes)}`)]]).exchange;
  expect(of(ERROR_LIMIT).over).toBe(false);
  const cut = of(ERROR_LIMIT + 1);
  expect(cut).toMatchObject({ over: true, keepAlive: false, status: 500 });
  expect(cut.errorText).toHaveLength(16_384);
  expect(cut.answer.failure).toMatchObject({ kind: "status" });
});

test("an answer may have 1,048,576 chunks", () => {
  expect(OUTPUT_MOST).toBe(16 * MIB);
  const piece = bytesOf(`data: ${GOOD}\n\n`.repeat(4096));
  const pieces = (count: number) =>
    [[0, bytesOf(`${HEAD}\r\n`)], ...Array.from({ length: count }, () => [1, piece] as const)] as const;
  expect(read(pieces(250)).exchange).toMatchObject({ over: false, answer: { chunks: 250 * 4096, failure: null } });
  const { exchange } = read(pieces(260));
  expect(exchange).toMatchObject({ over: true, answer: { failure: { kind: "malformed" } } });
  expect(exchange.answer.chunks).toBeLessThanOrEqual(1_048_576);
});

test("all unfinished answers together may have 64 MiB", () => {
  expect(ANSWERS_HELD_MOST).toBe(64 * MIB);
  const { held } = new Patterns();
  const events = () => {
    let isOver = false;
    const tooLong = () => {
      isOver = true;
    };
    const stream = new EventStream({ match: () => -1, event() {}, tooLong }, held);
    stream.push(Buffer.alloc(3 * MIB, "a"), 0, 3 * MIB);
    return { stream, isOver };
  };
  const all = Array.from({ length: 40 }, events);
  expect(all.filter(({ isOver }) => !isOver)).toHaveLength(Math.floor(64 / 3));
  for (const { stream } of all) stream.stop();
  expect(held.held).toBe(0);
  expect(events().isOver).toBe(false);
});

test("responses, messages and embeddings have the same limits of events, chunks and bodies", () => {
  const tokens = {
    "openai-responses": '{"type":"response.output_text.delta","delta":"a"}',
    "anthropic-messages": '{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}',
  } as const;
  for (const [name, token] of Object.entries(tokens)) {
    const dialect = name as keyof typeof tokens;
    const open = [
      [0, bytesOf(`${HEAD}\r\ndata: `)],
      [1, Buffer.alloc(EVENT_LIMIT + 1, "a")],
    ] as const;
    expect(read(open, { dialect }).exchange).toMatchObject({ over: true, answer: { failure: { kind: "malformed" } } });
    const piece = bytesOf(`data: ${token}\n\n`.repeat(4096));
    const pieces = [[0, bytesOf(`${HEAD}\r\n`)], ...Array.from({ length: 260 }, () => [1, piece] as const)] as const;
    const { exchange } = read(pieces, { dialect });
    expect(exchange).toMatchObject({ over: true, answer: { failure: { kind: "malformed" } } });
    expect(exchange.answer.chunks).toBeLessThanOrEqual(1_048_576);
  }
  const vector = (bytes: number) => `${HEAD}\r\n${'{"data":[{"embedding":[0.5]}]}'.padEnd(bytes)}`;
  expect(failureOf(vector(WHOLE_LIMIT), { dialect: "openai-embeddings", stream: false })).toBeNull();
  expect(failureOf(vector(WHOLE_LIMIT + 1), { dialect: "openai-embeddings", stream: false })).toMatchObject({
    kind: "malformed",
  });
});

test("the id of a response may have 256 characters", () => {
  const idOf = (length: number) => {
    const event = JSON.stringify({ type: "response.created", response: { id: "r".repeat(length) } });
    return read([[1, bytesOf(`${HEAD}\r\ndata: ${event}\n\n`)]], { dialect: "openai-responses" }).exchange.answer.id;
  };
  expect([idOf(256)?.length, idOf(257)]).toEqual([256, null]);
});

test("an answer's JSON may have 500,000 lists and objects", () => {
  const body = (lists: number) => `{"choices":[{"message":{"content":"a"}}],"more":[${"[],".repeat(lists - 5)}0]}`;
  const failure = (lists: number) => failureOf(`${HEAD}\r\n${body(lists)}`, { stream: false });
  expect(failure(499_000)).toBeNull();
  expect(failure(501_000)).toMatchObject({ kind: "malformed", message: expect.stringContaining("too many parts") });
});

test("other answers of the server, such as models and metrics, may have 16 MiB", async () => {
  let bytes = FETCHED_MOST;
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: ({ url }) => {
      const body = Buffer.alloc(bytes, " ");
      return url.endsWith("gzip")
        ? new Response(Bun.gzipSync(body), { headers: { "content-encoding": "gzip" } })
        : new Response(body);
    },
  });
  const clock = new WallClock();
  const ask = (path: string) =>
    fetchText(server.url.href + path, { headers: {}, tls: { rejectUnauthorized: true } }, clock);
  for (const path of ["", "gzip"]) {
    bytes = FETCHED_MOST;
    expect((await ask(path)).text).toHaveLength(16 * MIB);
    bytes++;
    expect(await ask(path)).toEqual({ status: 0, text: "", why: "an answer of more than 16 MiB" });
  }
  clock.close();
  await server.stop(true);
});

test("a model's name may have 1,024 characters, and an input 1,048,576 elements", async () => {
  const names = ["n".repeat(1025), "n".repeat(1024)];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: () => Response.json({ data: names.map((id) => ({ id })) }),
  });
  const clock = new WallClock();
  const talk = new ServerQueries(server.url.origin, { headers: {}, tls: { rejectUnauthorized: true } }, clock);
  expect(await talk.model("openai", null)).toBe(names[1]!);
  clock.close();
  await server.stop(true);
  const turn = {
    conversation: null,
    prompt: "x",
    inputTokens: 1,
    outputTokens: 1,
    arrivalUs: null,
    thinkUs: 0,
    extra: {},
  };
  const options = {
    dialect: "triton-http",
    model: "m",
    stream: false,
    legacyMaxTokens: false,
    ignoreEos: false,
    minTokens: null,
    temperature: null,
    extraBody: {},
  } as const;
  const of = (...shape: number[]) =>
    tensorsOf(
      { name: "m", decoupled: false, inputs: [{ name: "x", datatype: "INT32", shape, optional: false }] },
      "x",
      turn,
      options,
    );
  expect(of(1024, 1024)[0]!.data).toHaveLength(1_048_576);
  expect(() => of(1025, 1024)).toThrow("at most 1048576 are sent");
  expect(() => of(2 ** 40, 2 ** 40)).toThrow("at most");
});

test("an endless truth log, or one with impossibly many tokens, is refused", async () => {
  let asked = 0;
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: () => Response.json({ next: `${asked++}`, keeps: 1, more: true }),
  });
  const clock = new WallClock();
  const source = new ServerTruthSource(server.url.origin, { headers: {}, tls: { rejectUnauthorized: true } }, clock);
  expect(await source.begin()).toBeNull();
  await source.end();
  expect(asked).toBe(1001);
  clock.close();
  await server.stop(true);
  const { exchange } = read([[1, bytesOf(`${HEAD}\r\ndata: ${GOOD}\n\ndata: [DONE]\n\n`)]], { closes: true });
  const row = (runs: unknown) =>
    JSON.stringify({ type: "request", requestId: "r0", engine: 0, order: 0, firstWrittenUs: 1, runs });
  for (const runs of [[[0, 2 ** 50]], [[0, 1, 2 ** 50]], [[0, 2 ** 50, 0]], [null], [[{}, 1]], 5])
    expect(compareWithTruth([recordOf(exchange)], [row(runs)])).toMatchObject({ requests: 0, missing: 1 });
  expect(compareWithTruth([recordOf(exchange)], [row([[0, 1]])])).toMatchObject({ requests: 1, missing: 0 });
});

test("a file or a device is read only up to the limit", () => {
  const folder = mkdtempSync(join(tmpdir(), "understudy-files-"));
  const path = join(folder, "file");
  writeFileSync(path, "abc");
  expect(textAtMost(path, 3)).toBe("abc");
  expect(() => textAtMost(path, 2)).toThrow("larger than");
  truncateSync(path, 2 ** 40);
  expect(fileAtMost(path, 1000).bytes).toBeNull();
  expect(fileAtMost("/dev/zero", 1_000_000).bytes).toBeNull();
  expect(fileAtMost("/dev/null", 10).bytes).toHaveLength(0);
  rmSync(folder, { recursive: true });
});

test("a file that an option names is read within a limit", async () => {
  const folder = mkdtempSync(join(tmpdir(), "understudy-files-"));
  const path = join(folder, "file");
  writeFileSync(path, "");
  truncateSync(path, 2 ** 24 + 1);
  for (const command of [
    ["serve", "--config", path],
    ["serve", "--port", "0", "--script", path],
    ["serve", "--port", "0", "--ssl-certfile", path],
    ["serve", "--port", "0", "--fault-plan", path],
    ["proxy", "--to", "http://127.0.0.1:9", "--port", "0", "--fault-plan", path],
    ["timing", "fit", "--config", path, path],
    ["health", "--ssl-ca-certs", path],
    ["health", "--ssl-ca-certs", "/dev/zero"],
  ]) {
    const child = Bun.spawn([process.execPath, main, ...command], { stdout: "ignore", stderr: "pipe" });
    const output = await new Response(child.stderr).text();
    expect(output).toMatch(/larger than 16 MiB|at most 65536 bytes/);
    expect(await child.exited).toBe(2);
  }
  rmSync(folder, { recursive: true });
});

test("the other scheme is tried for three seconds when a server cannot be used", async () => {
  // A server that does not answer the TLS handshake.
  const silent = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: { data: (socket, bytes) => void (bytes[0] === 0x47 && socket.end("nonsense\r\n\r\n")) },
  });
  const clock = new WallClock();
  const from = clock.now();
  const talk = new ServerQueries(
    `http://127.0.0.1:${silent.port}`,
    { headers: {}, tls: { rejectUnauthorized: false } },
    clock,
  );
  await expect(talk.model("openai-chat", null)).rejects.toThrow("cannot reach");
  // Leaves room for a slow machine. Without the limit it takes 30 s.
  expect(clock.now() - from).toBeLessThan(15e6);
  clock.close();
  silent.stop(true);
});

test("an event without end in a mix rejects", async () => {
  const piece = Buffer.alloc(MIB, "a");
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: () => new Response(new ReadableStream({ pull: (out) => out.enqueue(piece) })),
  });
  const mix = [
    { atMs: 0, prompt: "x", promptLength: 1, prefixLength: 0, maxTokens: 1, leavesAfter: null, priority: 0 },
  ];
  await expect(sendMix(server.url.href, mix)).rejects.toThrow("an event of more than 4194304 characters");
  await server.stop(true);
});

test("a line and an element of a trace may have 16 MiB", () => {
  expect(LINE_LIMIT).toBe(16 * MIB);
  const folder = mkdtempSync(join(tmpdir(), "understudy-trace-"));
  const path = join(folder, "trace");
  writeFileSync(path, `${"a".repeat(LINE_LIMIT)}\n${"b".repeat(LINE_LIMIT + 1)}\nc`);
  const file = new TraceFile(path);
  expect(Array.from(file.lines(), ({ text }) => text?.length ?? null)).toEqual([LINE_LIMIT, null, 1]);
  file.close();
  rmSync(folder, { recursive: true });
  const element = (bytes: number) => Buffer.from(`{"a":"${"x".repeat(bytes - 8)}"}`);
  const pieces = [
    element(LINE_LIMIT),
    element(LINE_LIMIT + 1).subarray(0, 5 * MIB),
    element(LINE_LIMIT + 1).subarray(5 * MIB),
  ];
  expect(Array.from(elements(pieces), ({ text }) => text?.length ?? null)).toEqual([LINE_LIMIT, null]);
});

test("a line or an element without an end is refused after 64 MiB", () => {
  expect(ENDLESS_BYTES).toBe(64 * MIB);
  const piece = Buffer.alloc(MIB, "a");
  function* endless(begin: string) {
    yield Buffer.from(begin);
    for (let sent = 0; sent < 1000; sent++) yield piece;
  }
  for (const begin of ['{}, {"a":"', "a", '"', '{}\n{"a":1},\n {'])
    expect(() => [...elements(endless(begin))], begin).toThrow("has more than 67108864 bytes");
  const ended = Buffer.concat([piece, Buffer.from('"},{"a":"')]);
  function* long() {
    yield Buffer.from('{"a":"');
    for (let sent = 0; sent < 100; sent++) yield ended;
  }
  expect([...elements(long())]).toHaveLength(101);
});

test.each([
  [["truth", "-"], 'understudy truth: "-": line 1 has more than 67108864 bytes'],
  [["replay", "-", "--format", "mooncake"], 'understudy replay: "-": line 1 has more than 67108864 bytes'],
])("an endless line as input of %j ends with one line and code 2", async (words, why) => {
  const child = Bun.spawn([process.execPath, main, ...words], {
    stdin: Bun.file("/dev/zero"),
    stdout: "pipe",
    stderr: "pipe",
  });
  const [code, out, err] = await Promise.all([child.exited, child.stdout.text(), child.stderr.text()]);
  expect([code, out, err]).toEqual([2, "", `${why}\n`]);
});

test("the number of requests of a truth log, which is sorted in memory, is limited", () => {
  expect(SORTED_MOST).toBe(8_388_608);
  const text = '{"type":"request","arrivalUs":0,"promptTokens":7,"outputTokens":20}';
  const lines = (count: number) => Array.from({ length: count }, (_, i) => ({ number: i + 1, text }));
  expect([...truth(lines(5), () => {}, 5)]).toHaveLength(5);
  expect(() => [...truth(lines(6), () => {}, 5)]).toThrow("line 6: more than 5 requests in a truth log");
});

test("the reference client reads 64 MiB of a body and 1 MiB of a head", () => {
  const errorOf = (begin: string, piece: Buffer, times: number) => {
    const reader = new WireReader();
    reader.push(Buffer.from(begin));
    for (let i = 0; i < times; i++) reader.push(piece);
    return reader.error;
  };
  const piece = Buffer.alloc(MIB, "{");
  expect(errorOf(`${HEAD}\r\n`, piece, 64)).toBeNull();
  expect(errorOf(`${HEAD}\r\n`, piece, 65)).toContain("more than 67108864 bytes");
  expect(errorOf(HEAD, piece, 1)).toBe("the head of the response has more than 1048576 bytes");
  expect(errorOf(`${CHUNKED}5;`, piece, 1)).toBe("a chunk's size and its extensions have more than 1048576 bytes");
  expect(errorOf(`${CHUNKED}0\r\n`, Buffer.from("X: b\r\n".repeat(50_000)), 5)).toBe(
    "the trailer of the response has more than 1048576 bytes",
  );
  const bomb = Bun.gzipSync(Buffer.alloc(65 * MIB, "data: a\n"));
  const packed = `${HEAD}Content-Encoding: gzip\r\nContent-Length: ${bomb.length}\r\n\r\n`;
  expect(errorOf(packed, Buffer.from(bomb), 1)).toBe("the gzip stream is cut off");
});
