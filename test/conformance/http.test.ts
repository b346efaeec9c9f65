/**
 * HTTP itself on Bun's server: what of vLLM's (uvicorn) holds here, and the rows of docs/differences.md where Bun's does
 * otherwise. The recorded exchanges are compared elsewhere; these are about connections. On sockets of our own:
 * http-socket.test.ts.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { eventually, type Server, sample, serve } from "../server.ts";
import { exchange } from "./raw-client.ts";
import { posted } from "./raw-socket.ts";
import { arrivalMs, headFirst, inTurn, joined, statuses, wire } from "./talk.ts";

setDefaultTimeout(30_000);

let server: Server;
/** Seconds until the server closes a connection that has had its answer. Runs beside the other tests. */
let idleSeconds: Promise<number>;
beforeAll(async () => {
  server = await serve(["--served-model-name", "m", "--timing", "none", "--api-key", "a", "--http-server", "bun"]);
  idleSeconds = idle();
});
afterAll(async () => {
  await server.stop();
});
const portOf = ({ url }: Server) => Number(new URL(url).port);

const sent = async (text: string) => joined(await wire(text, portOf(server)));
const EMPTY_400 = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";

async function idle(): Promise<number> {
  const start = performance.now();
  expect(await sent("GET /health HTTP/1.1\r\nHost: x\r\n\r\n")).toStartWith("HTTP/1.1 200 OK\r\n");
  return (performance.now() - start) / 1000;
}

test("the head of a stream leaves with its first byte, or at once with --early-head", async () => {
  const flags = ["--served-model-name", "m", "--timing", "constant:ttft=500ms,itl=1ms", "--http-server", "bun"];
  const body = JSON.stringify({ model: "m", prompt: "Hello", max_tokens: 2, ignore_eos: true, stream: true });
  const text = [
    "POST /v1/completions HTTP/1.1",
    "Host: x",
    "Connection: close",
    "Content-Type: application/json",
    `Content-Length: ${body.length}\r\n\r\n${body}`,
  ].join("\r\n");
  for (const [more, early] of [
    [[], false],
    [["--early-head"], true],
  ] as const) {
    const slow = await serve([...flags, ...more]);
    try {
      const pieces = await wire(text, portOf(slow));
      const [status, head, token] = ["HTTP/1.1 200 OK\r\n", "\r\n\r\n", "data: {"].map((part) =>
        arrivalMs(pieces, part),
      );
      expect(token).toBeGreaterThan(450);
      expect(status).toBeLessThan(token!);
      // Either with the first token, or as long before it as the token takes.
      expect(head! < token!).toBe(early);
      expect(joined(pieces).includes(": understudy\n\n")).toBe(early);
    } finally {
      await slow.stop();
    }
  }
});

test("order and case of header lines", async () => {
  const head = (await sent("GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).split("\r\n\r\n")[0]!;
  const names = head
    .split("\r\n")
    .slice(1)
    .map((line) => line.slice(0, line.indexOf(":")))
    .filter((name) => name !== "Connection");
  expect(names).toEqual(["Content-Type", "Vary", "server", "Date", "Content-Length"]);
  expect(head).toContain("server: uvicorn\r\n");
});

test("what is not HTTP gets an empty 400, or nothing", async () => {
  const upload =
    "POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\nTransfer-Encoding: chunked\r\n";
  expect(await sent("nonsense\r\n\r\n")).toBe(EMPTY_400);
  expect(await sent(`${upload}\r\nzz\r\nabc\r\n0\r\n\r\n`)).toBe(EMPTY_400);
  expect(await sent(`${upload}Content-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n`)).toBe(EMPTY_400);
  expect(await sent("FOO /health HTTP/1.1\r\nHost: x\r\n\r\n")).toBe("");
});

test("a request without Host gets 400", async () => {
  expect(await sent("GET /health HTTP/1.1\r\n\r\n")).toBe(EMPTY_400);
});

test("HTTP/1.0 is answered as 1.1 and closed", async () => {
  const answer = await sent("GET /version?ten HTTP/1.0\r\nHost: x\r\n\r\n");
  expect(answer).toStartWith("HTTP/1.1 200 OK\r\n");
  expect(answer.toLowerCase()).not.toContain("connection: close");
  expect(server.output()).toContain('"GET /version?ten HTTP/1.1" 200 OK');
});

test("an idle connection is closed after 5 s or a little more", async () => {
  expect(await idleSeconds).toBeGreaterThan(4.5);
});

const KEY = "Authorization: Bearer a";
const short = (fields: object = {}, lines: readonly string[] = []) =>
  posted("/v1/completions", { model: "m", prompt: "x", max_tokens: 2, ignore_eos: true, ...fields }, [KEY, ...lines]);
const get = (path: string, lines = "") => `GET ${path} HTTP/1.1\r\nHost: x\r\n${lines}\r\n`;
const LAST = "Connection: close\r\n";
test("a connection serves one request after the other, refusals and streams among them", async () => {
  const parts = [short(), short({ stream: true }), short({ max_tokens: -1 }), get("/nothing"), get("/version", LAST)];
  expect(statuses(await inTurn(parts, portOf(server)))).toEqual([200, 200, 400, 404, 200]);
});

test("requests sent ahead are answered in order where the answers need no waiting", async () => {
  const text = await sent(get("/version") + get("/health") + get("/nothing") + get("/version", LAST));
  expect(statuses(text)).toEqual([200, 200, 404, 200]);
});

test("a request sent ahead of an answer that takes its time ends the connection", async () => {
  const aborts = () => sample(server.url, 'understudy_requests_total{outcome="abort"');
  const before = await aborts();
  expect(await sent(short({ max_tokens: 3000 }) + get("/version", LAST))).toBe("");
  await eventually(async () => (await aborts()) === before + 1);
});

test("Expect: 100-continue is answered at once, whatever the head says", async () => {
  for (const [lines, status] of [
    [KEY, 200],
    ["Authorization: Bearer wrong", 401],
  ] as const) {
    const whole = posted("/v1/completions", { model: "m", prompt: "x", max_tokens: 1 }, [
      lines,
      "Expect: 100-continue",
      "Connection: close",
    ]);
    expect(statuses(await headFirst(whole, portOf(server)))).toEqual([100, status]);
  }
});

test("a path with control characters gets an empty 505", async () => {
  expect(await sent(get("/a\u0007b", LAST))).toBe(
    "HTTP/1.1 505 HTTP Version Not Supported\r\nConnection: close\r\n\r\n",
  );
});

test("a WebSocket handshake is answered as a plain request", async () => {
  const lines = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
  const parts = [get("/version", `${lines}Sec-WebSocket-Version: 13\r\n`), get("/version", LAST)];
  expect(statuses(await inTurn(parts, portOf(server)))).toEqual([200, 200]);
});

test("HTTP/1.0: a stream comes without chunks and ends with the connection", async () => {
  const text = await sent(short({ stream: true }).replace("HTTP/1.1", "HTTP/1.0"));
  expect(text.toLowerCase()).not.toContain("transfer-encoding");
  expect(text).toEndWith("data: [DONE]\n\n");
});

test.each([
  ["GET", "/v1/completions", "POST"],
  ["HEAD", "/health", "GET"],
  ["DELETE", "/ping", "GET"],
  ["OPTIONS", "/version", "GET"],
  ["PUT", "/metrics", "GET"],
])("%s %s: 405, allow: %s", async (method, path, allow) => {
  const headers = { Authorization: "Bearer a" };
  const answer = await exchange({ method, path, headers }, portOf(server));
  expect([answer.status, answer.headers.allow]).toEqual([405, allow]);
  expect(answer.body).toBe(method === "HEAD" ? "" : '{"detail":"Method Not Allowed"}');
});

test("X-Request-Id: in the answer's id always, as a header only with its flag", async () => {
  const ask = async (from: Server, id: string | null) => {
    const headers = {
      "content-type": "application/json",
      Authorization: "Bearer a",
      ...(id ? { "x-request-id": id } : {}),
    };
    const body = JSON.stringify({ model: "m", prompt: "x", max_tokens: 1 });
    const answer = await fetch(`${from.url}/v1/completions`, { method: "POST", headers, body });
    return [((await answer.json()) as { id: string }).id, answer.headers.get("x-request-id")];
  };
  expect(await ask(server, "abc")).toEqual(["cmpl-abc", null]);
  const flagged = await serve(["--served-model-name", "m", "--timing", "none", "--enable-request-id-headers"]);
  try {
    expect(await ask(flagged, "abc")).toEqual(["cmpl-abc", "abc"]);
    const [, made] = await ask(flagged, null);
    expect(made).toMatch(/^[0-9a-f]{32}$/);
    for (const path of ["/nothing", "/health"])
      expect((await fetch(flagged.url + path, { headers: { "x-request-id": "z" } })).headers.get("x-request-id")).toBe(
        "z",
      );
  } finally {
    await flagged.stop();
  }
});

test("a request line that ends otherwise gets an empty 505", async () => {
  for (const line of [
    "/ HTTP/2.0\r\n",
    "/ HTTP/0.9\r\n",
    "/ http/1.1\r\n",
    "/ HTTP/1.1 \r\n",
    "/\r\n",
    "/ HTTP/1.1\n",
    "/a b HTTP/1.1\r\n",
  ])
    expect([line, await sent(`GET ${line}Host: x\r\n\r\n`)]).toEqual([
      line,
      "HTTP/1.1 505 HTTP Version Not Supported\r\nConnection: close\r\n\r\n",
    ]);
});

test("an empty line before a request gets an empty 400", async () => {
  expect(await sent("\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")).toBe(
    "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
  );
});
