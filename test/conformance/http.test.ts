/**
 * Checks that the server speaks HTTP like uvicorn: connections, timeouts, and the whole server. Answers to malformed requests
 * are compared with a recording in http1-recorded.test.ts.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { createHash } from "node:crypto";
import net from "node:net";
import { type HostedServer, hosted } from "../hosted.ts";
import { main } from "../program.ts";
import { eventually, type ServerHandle, sample, serve } from "../server.ts";
import { headFirst, inTurn, statuses, wire } from "./http-conversation.ts";
import { exchange } from "./raw-client.ts";
import { posted, RawSocket } from "./raw-socket.ts";

setDefaultTimeout(30_000);

const FLAGS = ["--served-model-name", "m", "--max-model-len", "131072"];
let server: HostedServer;
/** Seconds until the server closes an idle connection. Measured while the other tests run. */
let idleSeconds: Promise<number>;
beforeAll(async () => {
  server = await hosted([...FLAGS, "--timing", "none", "--api-key", "a"]);
  idleSeconds = idle();
});
afterAll(async () => {
  await server.stop();
});
const portOf = ({ url }: ServerHandle) => Number(new URL(url).port);
const sent = async (text: string) => (await wire(text, portOf(server))).join("");

async function idle(): Promise<number> {
  const start = performance.now();
  expect(await sent("GET /health HTTP/1.1\r\nHost: x\r\n\r\n")).toStartWith("HTTP/1.1 200 OK\r\n");
  return (performance.now() - start) / 1000;
}

const KEY = "Authorization: Bearer a";
const LAST = "Connection: close\r\n";
const short = (fields: object = {}, lines: readonly string[] = []) =>
  posted("/v1/completions", { model: "m", prompt: "x", max_tokens: 2, ignore_eos: true, ...fields }, [KEY, ...lines]);
const get = (path: string, lines = "") => `GET ${path} HTTP/1.1\r\nHost: x\r\n${lines}\r\n`;

test("the head of a stream is sent at once", async () => {
  const slow = await hosted([...FLAGS, "--timing", "constant:ttft=1000s,itl=1ms"]);
  const client = await RawSocket.connect(portOf(slow));
  try {
    client.write(short({ stream: true }));
    // The first token would arrive long after this test.
    await eventually(() => client.text.includes("\r\n\r\n"));
    expect(client.text).toStartWith("HTTP/1.1 200 OK\r\n");
    expect(client.text).not.toContain("data: ");
  } finally {
    client.destroy();
    await slow.stop();
  }
});

test("header lines have uvicorn's order and spelling", async () => {
  const namesOf = (answer: string) =>
    answer
      .split("\r\n\r\n")[0]!
      .split("\r\n")
      .slice(1)
      .map((line) => line.slice(0, line.indexOf(":")));
  const whole = await sent(get("/version", LAST));
  expect(namesOf(whole)).toEqual(["date", "server", "content-length", "content-type", "vary", "connection"]);
  const stream = await sent(short({ stream: true }, ["Connection: close"]));
  expect(namesOf(stream)).toEqual(["date", "server", "content-type", "vary", "connection", "transfer-encoding"]);
  expect(/^date: (.*)$/m.exec(whole)![1]).toMatch(/^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\r?$/);
  // A route that creates a `Response` object.
  expect(namesOf(await sent(get("/metrics", LAST)))).toEqual([
    "date",
    "server",
    "content-length",
    "content-type",
    "connection",
  ]);
});

test("bytes that are not HTTP get uvicorn's refusal", async () => {
  const refusal = /^HTTP\/1\.1 400 Bad Request\r\ndate: [^\r]+\r\nserver: uvicorn\r\n/;
  const text = await sent("FOO /health HTTP/1.1\r\nHost: x\r\n\r\n");
  expect(text).toMatch(refusal);
  expect(text).toEndWith("connection: close\r\n\r\nInvalid HTTP request received.");
  expect(server.output()).not.toContain("FOO");
});

test("after an HTTP/1.0 request the connection closes, and the log line has 1.0", async () => {
  const answer = await sent("GET /version?ten HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  expect(answer).toStartWith("HTTP/1.1 200 OK\r\n");
  expect(answer).toContain("\r\nconnection: close\r\n");
  expect(server.output()).toContain('"GET /version?ten HTTP/1.0" 200 OK');
  const stream = await sent(short({ stream: true }).replace("HTTP/1.1", "HTTP/1.0"));
  expect(stream).toContain("\r\ntransfer-encoding: chunked\r\n");
  expect(stream).toEndWith("data: [DONE]\n\n\r\n0\r\n\r\n");
});

test("an idle connection is closed after 5 s", async () => {
  expect(await idleSeconds).toBeGreaterThan(4.9);
});

test("a connection with a request is not idle", async () => {
  const brisk = await hosted([
    ...FLAGS,
    "--timing",
    "linear:base=10ms,prefill=0ms,decode=0ms",
    "--timeout-keep-alive",
    "1",
  ]);
  try {
    // An answer that takes longer than the idle timeout, then another one.
    const parts = [short({ max_tokens: 150 }), short({ max_tokens: 150, stream: true }), get("/version", LAST)];
    expect(statuses(await inTurn(parts, portOf(brisk)))).toEqual([200, 200, 200]);
  } finally {
    await brisk.stop();
  }
});

test("a connection serves one request after the other, including refusals and streams", async () => {
  const parts = [short(), short({ stream: true }), short({ max_tokens: -1 }), get("/nothing"), get("/version", LAST)];
  expect(statuses(await inTurn(parts, portOf(server)))).toEqual([200, 200, 400, 404, 200]);
});

test("pipelined requests are answered in order, also if a later one is faster", async () => {
  const text = await sent(
    short({ max_tokens: 3000 }) + short({ stream: true }) + get("/health") + get("/version", LAST),
  );
  expect(statuses(text)).toEqual([200, 200, 200, 200]);
  expect(text.indexOf('"completion_tokens":3000')).toBeLessThan(text.indexOf("data: {"));
  expect(text).toEndWith('{"version":"0.33.0"}');
});

test("a pipelined request whose body arrives later is answered", async () => {
  const [first, second] = [short({ max_tokens: 3000 }), short({}, ["Connection: close"])];
  const client = await RawSocket.connect(portOf(server));
  client.write(first + second.slice(0, -10));
  await eventually(() => client.text.includes('"completion_tokens":3000'));
  client.write(second.slice(-10));
  await eventually(() => client.text.includes('"completion_tokens":2'));
  expect(statuses(client.text)).toEqual([200, 200]);
  client.destroy();
});

test("thousands of pipelined requests on one connection are answered", async () => {
  const count = 20_000;
  const text = await sent(get("/version").repeat(count - 1) + get("/version", LAST));
  expect(text.split('{"version":"0.33.0"}').length - 1).toBe(count);
});

test("when a client with pipelined requests disconnects, started requests are aborted and the others never start", async () => {
  const counted = (outcome: string) => sample(server.url, `understudy_requests_total{outcome="${outcome}"`);
  const [aborts, lengths] = [await counted("abort"), await counted("length")];
  const client = await RawSocket.connect(portOf(server));
  const endless = short({ max_tokens: 120_000 });
  client.write(endless + endless + endless);
  await eventually(async () => (await sample(server.url, "vllm:num_requests_running")) === 1);
  client.leave("rst");
  await eventually(async () => (await counted("abort")) === aborts + 1);
  await eventually(async () => (await sample(server.url, "understudy_requests_open")) === 0);
  expect([await counted("abort"), await counted("length")]).toEqual([aborts + 1, lengths]);
});

test("Expect: 100-continue is answered if the body is needed", async () => {
  const expecting = (key: string) =>
    posted("/v1/completions", { model: "m", prompt: "x", max_tokens: 1 }, [
      `Authorization: Bearer ${key}`,
      "Expect: 100-continue",
      "Connection: close",
    ]);
  expect(statuses(await headFirst(expecting("a"), portOf(server)))).toEqual([100, 200]);
  expect(statuses(await headFirst(expecting("wrong"), portOf(server)))).toEqual([401]);
});

test.each([
  ["GET", "/v1/completions", "POST"],
  ["HEAD", "/health", "GET"],
  ["OPTIONS", "/version", "GET"],
  ["PUT", "/metrics", "GET"],
])("%s %s: 405, allow: %s", async (method, path, allow) => {
  const answer = await exchange({ method, path, headers: { Authorization: "Bearer a" } }, portOf(server));
  expect([answer.status, answer.headers.allow]).toEqual([405, allow]);
  expect(answer.headers["content-length"]).toBe("31");
  expect(answer.body).toBe(method === "HEAD" ? "" : '{"detail":"Method Not Allowed"}');
});

test("a reader that stalls gets the same bytes as one that does not", async () => {
  const body = { model: "m", prompt: "x", max_tokens: 60_000, ignore_eos: true, stream: true, seed: 1 };
  const text = posted("/v1/completions", body, [KEY, "X-Request-Id: same", "Connection: close"]);
  const contentOf = (stream: string) => {
    const pieces = [...stream.matchAll(/"text":("(?:[^"\\]|\\.)*")/g)].map(([, piece]) => JSON.parse(piece!) as string);
    return createHash("sha256").update(pieces.join("")).digest("hex");
  };
  const read = (stallMs: number) =>
    new Promise<string>((resolve) => {
      const socket = net.connect(portOf(server), "127.0.0.1");
      const parts: Buffer[] = [];
      socket.on("data", (part: Buffer) => parts.push(part));
      socket.on("close", () => resolve(Buffer.concat(parts).toString()));
      socket.write(text);
      if (stallMs > 0) {
        socket.pause();
        setTimeout(() => socket.resume(), stallMs);
      }
    });
  const [steady, stalled] = await Promise.all([read(0), read(1500)]);
  expect(stalled).toEndWith("data: [DONE]\n\n\r\n0\r\n\r\n");
  expect(contentOf(stalled)).toBe(contentOf(steady));
  // Events that arrived during the stall were joined.
  expect(stalled.split("data: ").length).toBeLessThan(steady.split("data: ").length);
  await eventually(async () => (await sample(server.url, "understudy_held_bytes")) === 0);
});

test("a chunked body in single bytes, longer than one read, is accepted", async () => {
  const prompt = "A word or two. ".repeat(6000);
  const json = JSON.stringify({ model: "m", prompt, max_tokens: 1 });
  const chunks: string[] = [];
  for (let at = 0; at < json.length; at += 777) {
    const part = json.slice(at, at + 777);
    chunks.push(`${part.length.toString(16)}\r\n${part}\r\n`);
  }
  const head = `POST /v1/completions HTTP/1.1\r\nHost: x\r\n${KEY}\r\nContent-Type: application/json\r\n${LAST}`;
  const answer = await sent(`${head}Transfer-Encoding: chunked\r\n\r\n${chunks.join("")}0\r\n\r\n`);
  const counted = JSON.parse(answer.slice(answer.indexOf("\r\n\r\n") + 4)) as { usage: { prompt_tokens: number } };
  const whole = await exchange(
    { method: "POST", path: "/v1/completions", headers: { Authorization: "Bearer a" }, body_text: json },
    portOf(server),
  );
  expect(counted.usage.prompt_tokens).toBe(JSON.parse(whole.body).usage.prompt_tokens);
});

test("a WebSocket handshake is answered as a plain request", async () => {
  const lines = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
  const parts = [get("/version", `${lines}Sec-WebSocket-Version: 13\r\n`), get("/version", LAST)];
  expect(statuses(await inTurn(parts, portOf(server)))).toEqual([200, 200]);
});

test("unread answers to pipelined requests stop further ones, other clients are served, and a disconnect drops the rest", async () => {
  const answered = async () =>
    (await sample(server.url, 'http_requests_total{handler="/openapi.json",method="GET",status="2xx"}')) || 0;
  /** Returns the count when it no longer rises. */
  const settled = async () => {
    let last = -1;
    await eventually(async () => {
      const before = last;
      last = await answered();
      await Bun.sleep(150);
      return last === before;
    });
    return last;
  };
  const before = await answered();
  const client = await RawSocket.connect(portOf(server), { paused: true });
  client.write(get("/openapi.json").repeat(5000));
  const waiting = await settled();
  // The answers fill the kernel's buffers.
  expect(waiting - before).toBeGreaterThan(0);
  expect(waiting - before).toBeLessThan(500);
  client.leave("rst");
  expect(await settled()).toBe(waiting);
});

test("pipelined requests of each kind are answered in order on one connection", async () => {
  const kinds = [
    get("/version"),
    get("/docs"),
    short(),
    get("/openapi.json"),
    short({ stream: true }),
    get("/nothing"),
    posted("/v1/chat/completions", { model: "m", messages: [{ role: "user", content: "x" }], max_tokens: 1 }, [KEY]),
    posted("/v1/completions", { model: "m" }, [KEY]),
  ];
  const expected = [200, 200, 200, 200, 200, 404, 200, 400];
  const rounds = 40;
  const text = await sent(kinds.join("").repeat(rounds) + get("/version", LAST));
  expect(statuses(text)).toEqual([...Array(rounds).fill(expected).flat(), 200]);
});

test("an upgrade to h2c, as Java's HttpClient requests it, gets 400 for the missing body and a line in the log", async () => {
  const upgrade = ["Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAA", "Upgrade: h2c"];
  const mute = await hosted([...FLAGS, "--timing", "none", "--api-key", "a", "--uvicorn-log-level", "error"]);
  try {
    for (const to of [server, mute]) {
      const text = await inTurn([short({}, upgrade), short({}, [...upgrade, "Connection: close"])], portOf(to));
      expect(statuses(text)).toEqual([400, 400]);
      expect(text).toContain("'loc': 'body', 'msg': 'Field required'");
    }
    expect(server.output()).toContain("\nWARNING:  Unsupported upgrade request.\nINFO:     127.0.0.1:");
    expect(mute.output()).not.toContain("WARNING");
  } finally {
    await mute.stop();
  }
});

test("a head or an unneeded body that arrives too slowly closes the connection, even if bytes keep arriving", async () => {
  const strict = await hosted([...FLAGS, "--timing", "none", "--body-timeout", "1", "--timeout-keep-alive", "60"]);
  const unwanted = "POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n";
  try {
    const texts = await Promise.all(
      ["", "GET /version HTTP/1.1\r\nX: ", unwanted].map(async (begin) => {
        const socket = net.connect(portOf(strict), "127.0.0.1");
        let text = "";
        const closed = new Promise((done) => socket.on("close", done));
        socket.on("data", (data) => {
          text += data.toString("latin1");
        });
        socket.on("error", () => {});
        socket.write(begin);
        const dripping = setInterval(() => begin && socket.write("x"), 100);
        await closed;
        clearInterval(dripping);
        return text.slice(0, 22);
      }),
    );
    expect(texts).toEqual(["", "", "HTTP/1.1 404 Not Found"]);
  } finally {
    await strict.stop();
  }
});

test("at shutdown the server closes idle connections and finishes streams", async () => {
  const ending = await serve([
    ...FLAGS,
    "--timing",
    "linear:base=10ms,prefill=0ms,decode=0ms",
    "--shutdown-timeout",
    "10",
  ]);
  const streaming = wire(short({ stream: true, max_tokens: 60 }), portOf(ending));
  const idle = wire("", portOf(ending)).then(() => performance.now());
  await eventually(async () => (await sample(ending.url, "vllm:num_requests_running")) === 1);
  const ended = ending.stop();
  const idleAt = await idle;
  const answer = (await streaming).join("");
  expect(performance.now() - idleAt).toBeGreaterThan(100);
  expect(answer).toEndWith("data: [DONE]\n\n\r\n0\r\n\r\n");
  await ended;
});

test("a route can read its body as text", async () => {
  const admin = await hosted([...FLAGS, "--timing", "constant:ttft=1ms,itl=1ms", "--admin-key", "k"]);
  try {
    const change = async (body: string) => {
      const headers = { authorization: "Bearer k" };
      return (await fetch(`${admin.url}/admin/config`, { method: "POST", headers, body })).status;
    };
    expect([await change('{"speed":2}'), await change('{"jitter":9}'), await change("é")]).toEqual([200, 400, 400]);
  } finally {
    await admin.stop();
  }
});

test("several processes share the port", async () => {
  const several = await serve([...FLAGS, "--workers", "2", "--timing", "none"]);
  try {
    const answers = await Promise.all(
      Array.from({ length: 16 }, () => exchange({ method: "GET", path: "/version" }, portOf(several))),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array(16).fill(200));
  } finally {
    await several.stop();
  }
});

test("a port in use prints one line and exits with 2", () => {
  const words = ["serve", "--port", String(portOf(server)), "--served-model-name", "m"];
  const { exitCode, stderr } = Bun.spawnSync([process.execPath, main, ...words], { env: { ...process.env } });
  expect([exitCode, stderr.toString().trim()]).toEqual([2, expect.stringMatching(/^[^\n]*in use[^\n]*$/)]);
});

test("a client that disconnects while pipelined requests wait ends its stream", async () => {
  const server = await hosted([...FLAGS, "--timing", "constant:ttft=5ms,itl=5ms"]);
  try {
    const fields = { model: "m", prompt: "Hello", max_tokens: 2000, ignore_eos: true, stream: true };
    const body = JSON.stringify(fields);
    const head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
    const request = `${head}Content-Length: ${body.length}\r\n\r\n${body}`;
    const socket = net.connect(Number(new URL(server.url).port), "127.0.0.1", () => socket.write(request + request));
    socket.on("error", () => {});
    await new Promise((seen) => socket.once("data", seen));
    socket.resetAndDestroy();
    await eventually(async () => (await sample(server.url, "understudy_streams_open")) === 0);
    await eventually(async () => (await sample(server.url, "understudy_requests_open")) === 0);
    expect(await sample(server.url, "vllm:num_requests_running")).toBe(0);
  } finally {
    await server.stop();
  }
});
