/** Tests the load generator over real sockets with servers of all kinds. */
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { WallClock } from "../../../src/base/clock.ts";
import { Load, type LoadOutcome } from "../../../src/tools/load/load.ts";
import type { FailureClass } from "../../../src/tools/load/requests/types.ts";
import type { Settings } from "../../../src/tools/load/settings.ts";
import { kinds, loadOn, SETTINGS, WHOLE } from "./loaded.ts";
import { chatEvent, chunk, END, event, HEAD, usageEvent, workedExample } from "./played.ts";
import { type RawRequest, type RawServer, rawServer, type Wire } from "./raw-server.ts";

setDefaultTimeout(20_000);

let server: RawServer | null = null;
afterEach(() => server?.stop());

/** Runs a load on a server that answers like this. */
function load(answer: (asked: RawRequest, wire: Wire) => void, more: Partial<Settings> = {}): Promise<LoadOutcome> {
  server = rawServer(answer);
  return loadOn(server, more);
}

/** Sends the pieces one after another, each after the one before was written. */
async function slowly(wire: Wire, pieces: readonly (string | Uint8Array)[], ms = 1): Promise<void> {
  for (const piece of pieces) {
    wire.send(piece);
    await Bun.sleep(ms);
  }
}

test("the worked example, byte after byte", async () => {
  const started: number[] = [];
  const { records, nothing } = await load((_, wire) => {
    void (async () => {
      for (const [, text] of workedExample(true)) {
        started.push(performance.now());
        await slowly(
          wire,
          [...Buffer.from(text)].map((byte) => Uint8Array.of(byte)),
          0,
        );
      }
    })();
  });
  const [record] = records;
  expect([nothing, record!.failure, record!.outputTokens, record!.inputTokens, record!.done]).toEqual([
    null,
    null,
    5,
    7,
    true,
  ]);
  expect([...record!.chunkTokens]).toEqual([1, 2, 1, 1]);
  // The client sees no piece before the server sent it.
  expect(record!.firstUs - record!.sendUs).toBeGreaterThanOrEqual((started[2]! - started[0]!) * 1000);
  expect(record!.lastUs).toBeGreaterThan(record!.firstUs);
  expect(record!.endUs).toBeGreaterThanOrEqual(record!.lastUs);
});

test("requests: body fields, an id per request, reused connections", async () => {
  const answer = (_: RawRequest, wire: Wire) => wire.send(WHOLE);
  const loaded = await load(answer, {
    count: 5,
    headers: { "X-Team": "a" },
    temperature: 0.5,
    minTokens: 2,
    extraBody: { top_k: 3 },
  });
  const bodies = server!.asked.map(({ body }) => JSON.parse(body));
  expect(bodies[0]).toMatchObject({
    model: "m",
    messages: [{ role: "user" }],
    max_completion_tokens: 5,
    stream: true,
    stream_options: { include_usage: true, continuous_usage_stats: true },
    temperature: 0.5,
    min_tokens: 2,
    top_k: 3,
    ignore_eos: true,
  });
  expect(new Set(bodies.map(({ messages }) => messages[0].content)).size).toBe(5);
  expect(server!.asked.map(({ headers }) => headers.get("x-request-id"))).toEqual(
    loaded.records.map(({ requestId }) => requestId),
  );
  expect([server!.connections(), server!.asked[0]!.headers.get("x-team")]).toEqual([1, "a"]);
  await load(answer, { count: 3, pooled: false });
  expect(server!.asked.map(({ headers }) => headers.get("connection"))).toEqual(["close", "close", "close"]);
});

test("completions and Triton's generate_stream are measured like chats", async () => {
  const text = (content: string, tokens: number) =>
    event({
      choices: [{ index: 0, text: content, finish_reason: null }],
      usage: { prompt_tokens: 4, completion_tokens: tokens },
    });
  const done = event({
    choices: [{ index: 0, text: "", finish_reason: "length" }],
    usage: { prompt_tokens: 4, completion_tokens: 3 },
  });
  const completions = await load(
    (_, wire) => wire.send(HEAD + chunk(text("a", 1) + text("", 2) + done + event("[DONE]")) + END),
    { dialect: "openai" },
  );
  expect(server!.asked[0]!.path).toBe("/v1/completions");
  expect(JSON.parse(server!.asked[0]!.body).prompt).toHaveLength(4);
  expect(completions.records[0]).toMatchObject({ outputTokens: 3, failure: null });
  expect(completions.records[0]!.chunkUs).toHaveLength(3);
  const triton = await load(
    (_, wire) => wire.send(HEAD + chunk(event({ text_output: "a" }) + event({ text_output: "b" })) + END),
    {
      dialect: "triton-generate",
    },
  );
  expect(server!.asked[0]!.path).toBe("/v2/models/m/generate_stream");
  expect(JSON.parse(server!.asked[0]!.body)).toMatchObject({ max_tokens: 5, stream: true });
  expect(triton.records[0]).toMatchObject({ outputTokens: 2, usage: false, failure: null });
});

test("a server that refuses continuous_usage_stats, then stream_options, is asked without them", async () => {
  const { records, result } = await load(
    ({ body }, wire) => {
      const options = JSON.parse(body).stream_options;
      const refused = options?.continuous_usage_stats ? "continuous_usage_stats" : options ? "stream_options" : null;
      const error = `{"error":{"message":"unknown parameter: ${refused}"}}`;
      wire.send(refused ? `HTTP/1.1 400 Bad Request\r\nContent-Length: ${error.length}\r\n\r\n${error}` : WHOLE);
    },
    { count: 3 },
  );
  expect(server!.asked.map(({ body }) => JSON.parse(body).stream_options ?? null)).toEqual([
    { include_usage: true, continuous_usage_stats: true },
    { include_usage: true },
    null,
    null,
    null,
  ]);
  expect([records.length, kinds({ result } as LoadOutcome)]).toEqual([3, {}]);
});

describe("failures are counted by kind", () => {
  const status = (line: string, body = "") => `HTTP/1.1 ${line}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  const TOKEN = HEAD + chunk(event(chatEvent({ delta: { content: "A" }, so: 1 })));
  const cases: readonly (readonly [string, (wire: Wire) => void, FailureClass])[] = [
    ["401", (wire) => wire.send(status("401 Unauthorized")), "status"],
    ["404 for the model", (wire) => wire.send(status("404 Not Found", '{"error":"no model m"}')), "status"],
    ["429", (wire) => wire.send(status("429 Too Many Requests\r\nRetry-After: 1")), "status"],
    [
      "HTML",
      (wire) => wire.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"),
      "malformed",
    ],
    ["garbage", (wire) => wire.send(HEAD + chunk("data: {{{\n\n") + END), "malformed"],
    [
      "cut",
      (wire) => {
        wire.send(TOKEN);
        setTimeout(() => wire.cut(), 20);
      },
      "mid-stream end",
    ],
    [
      "closed",
      (wire) => {
        wire.send(TOKEN);
        setTimeout(() => wire.end(), 20);
      },
      "mid-stream end",
    ],
    ["nothing at all", (wire) => wire.end(), "mid-stream end"],
    ["endless", (wire) => wire.send(TOKEN), "timeout"],
    ["no token", (wire) => wire.send(HEAD + chunk(event("[DONE]")) + END), "no token"],
    ["an error event", (wire) => wire.send(HEAD + chunk(event({ error: { message: "oom" } })) + END), "error event"],
  ];
  test.each(cases)("%s fails with its kind", async (_, answer, kind) => {
    const loaded = await load((__, wire) => answer(wire), { count: 2, timeoutS: 0.3 });
    expect(kinds(loaded)).toEqual({ [kind]: 2 });
    expect(loaded.nothing).toContain(`${kind}: `);
    expect(loaded.result).toMatchObject({ completed: 0, failed: 2 });
  });

  test("requests without a listening server fail with the reason", async () => {
    const free = rawServer(() => {});
    free.stop();
    const clock = new WallClock();
    const url = new URL(free.url);
    const { nothing } = await new Load({ ...SETTINGS, url }, { clock, live: null }).run();
    clock.close();
    expect(nothing).toContain("connect: ECONNREFUSED");
  });

  test("a few failures among many requests: the others are measured", async () => {
    const loaded = await load(
      ({ index }, wire) => wire.send(index % 4 === 0 ? status("500 Internal Server Error") : WHOLE),
      { count: 8 },
    );
    expect([kinds(loaded), loaded.nothing, loaded.result.completed]).toEqual([{ status: 2 }, null, 6]);
  });
});

test("no request fails because the server closed an idle connection", async () => {
  const { result } = await load(
    (_, wire) => {
      wire.send(WHOLE);
      setTimeout(() => wire.end(), 0);
    },
    { count: 20, concurrency: 2 },
  );
  expect(result).toMatchObject({ completed: 20, failed: 0 });
});

test("300 simultaneous requests use 300 connections and do not wait for each other", async () => {
  const waiting: Wire[] = [];
  const { result } = await load(
    (_, wire) => {
      waiting.push(wire);
      if (waiting.length === 300) for (const client of waiting) client.send(WHOLE);
    },
    { count: 300, concurrency: 300 },
  );
  expect([result.completed, server!.connections()]).toEqual([300, 300]);
});

test("an open loop does not wait for a server that stalls, and latency from the intended time shows a cap", async () => {
  const answer = ({ index }: RawRequest, wire: Wire) => void setTimeout(() => wire.send(WHOLE), index === 0 ? 300 : 0);
  const loop = { kind: "open", pattern: "constant", rate: 200, burstiness: 1, ramp: null, rescale: false } as const;
  const open = await load(answer, { loop, concurrency: null, count: 20 });
  expect(open.records[19]!.sendUs).toBeLessThan(open.records[0]!.firstUs);
  const capped = await load(answer, { loop, concurrency: 1, count: 20 });
  const { ttft, ttft_intended: meant } = capped.result.understudy.distributions!;
  // The first answer delayed nineteen requests. Latency from the send shows only one.
  expect(ttft!.p50!).toBeLessThan(200);
  expect(meant!.p50!).toBeGreaterThan(200);
});

test("requests that are cut or read slowly on purpose are not in any latency", async () => {
  const cut = await load(
    (_, wire) =>
      void slowly(
        wire,
        workedExample(true).map(([, text]) => text),
        30,
      ),
    {
      count: 4,
      cancelShare: 1,
      cancelAfterS: 0.05,
    },
  );
  expect([kinds(cut), cut.result.failed, cut.result.understudy.distributions!.ttft!.count]).toEqual([
    { cancelled: 4 },
    0,
    0,
  ]);
  const pieces = workedExample(true).map(([, text]) => text);
  const slow = await load((_, wire) => void slowly(wire, pieces, 30), { count: 1, slowShare: 1 });
  expect(slow.records[0]).toMatchObject({ failure: null, disturbed: "slow reader", outputTokens: 5 });
  // The answer was sent over 240 ms, and read at once half a second later.
  expect(slow.records[0]!.lastUs - slow.records[0]!.firstUs).toBeLessThan(100_000);
  expect(slow.records[0]!.firstUs - slow.records[0]!.sendUs).toBeGreaterThan(300_000);
});

test("a run that is interrupted has a partial result", async () => {
  server = rawServer(({ index }, wire) => index < 3 && wire.send(WHOLE));
  const clock = new WallClock();
  const run = new Load({ ...SETTINGS, url: new URL(server.url), count: 100 }, { clock, live: null });
  setTimeout(() => run.stop(), 200);
  const { result, nothing } = await run.run();
  clock.close();
  expect([nothing, result.completed, result.understudy.partial, result.understudy.errors]).toEqual([
    null,
    3,
    true,
    { unfinished: 1 },
  ]);
});

test("a run that is interrupted during the warm-up reports that", async () => {
  server = rawServer(() => {});
  const clock = new WallClock();
  const run = new Load({ ...SETTINGS, url: new URL(server.url), warmUpCount: 2 }, { clock, live: null });
  setTimeout(() => run.stop(), 200);
  const { result, nothing } = await run.run();
  clock.close();
  expect([nothing, result.understudy.partial, server.asked.length]).toEqual(["no request was sent", true, 1]);
});

test("warm-up requests are not measured and have other prompts", async () => {
  const { result } = await load((_, wire) => wire.send(WHOLE), { count: 3, warmUpCount: 2 });
  expect([result.completed, server!.asked.length, new Set(server!.asked.map(({ body }) => body)).size]).toEqual([
    3, 5, 5,
  ]);
});

test("missing metrics are reported, not waited for", async () => {
  const { result } = await load((_, wire) => wire.send(WHOLE), { metricsUrl: "http://127.0.0.1:1/metrics" });
  expect(result.understudy.warnings!.join("\n")).toContain("metrics could not be read (ECONNREFUSED)");
  expect([result.completed, result.understudy.server_metrics]).toEqual([1, null]);
});

test("if only the usage has a number of tokens, a warning states that gaps are per chunk", async () => {
  const { result } = await load((_, wire) =>
    wire.send(
      HEAD +
        chunk(
          event(chatEvent({ delta: { content: "ABCDE" } })) +
            event(chatEvent({ finish: "stop" })) +
            event(usageEvent(5)) +
            event("[DONE]"),
        ) +
        END,
    ),
  );
  expect(result.understudy.warnings!.join("\n")).toContain("ITL is per chunk");
});
