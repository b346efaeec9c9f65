/**
 * Compares our HTTP/1.1 with recordings of uvicorn, byte by byte. `recorded-http/record.py` ran a small application under
 * uvicorn; here the same application runs under our server.
 */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import net from "node:net";
import type { HttpRequest } from "../../../src/wire/http/request.ts";
import { HttpServer } from "../../../src/wire/http1/server.ts";
import { eventually } from "../../server.ts";
import { LOCAL } from "./local-options.ts";

interface Recording {
  readonly name: string;
  readonly sent: readonly string[];
  readonly received: string;
  readonly closed: boolean;
  /** Log lines. */
  readonly warned: readonly string[];
}

const read = (file: string) =>
  readFileSync(new URL(`../../conformance/recorded-http/${file}`, import.meta.url), "utf8");
const recorded: readonly Recording[] = JSON.parse(read("uvicorn-0.54.json"));
/**
 * The recorded case that differs: the llhttp of undici 7.30 refuses a tab after a length, llhttp 9.4.3 in httptools 0.9 accepts
 * it. A row of docs/reference/differences.md.
 */
const NEWER_PARSER = "length with blanks";
const SILENT_MS = 120;
const PART_MS = 15;

let server: HttpServer;
const warned: string[] = [];
const TEXT = { "content-type": "text/plain" };

/** Application of the test, the same as `app` in `record.py`. */
async function answer(request: HttpRequest): Promise<Response> {
  const { pathname, search } = new URL(request.url);
  const { headers, method } = request;
  const query = search.slice(1);
  const text = (status: number, body: string) => server.answer(request, status, TEXT, body);
  switch (pathname) {
    case "/version": {
      const kind = { "content-type": "application/json", vary: "Origin" };
      return server.answer(request, 200, kind, '{"version":"0.33.0"}');
    }
    case "/head": {
      const given = ["x", "y", "host"].map((name) => headers.get(name));
      const raw = request.url.slice(request.url.indexOf("?") + 1 || request.url.length);
      const shown = [method, server.version(request), raw, ...given].map((one) => JSON.stringify(one));
      // Encoded as Latin-1, so that bytes beyond ASCII return unchanged.
      const body = Buffer.from(`[${shown.join(", ")}]`, "latin1");
      return new Response(body, { headers: TEXT });
    }
    case "/echo":
      return text(200, Buffer.from(await request.bytes()).toString());
    case "/slow":
      await Bun.sleep(50);
      return text(200, `slow ${query}`);
    case "/stream": {
      await request.bytes();
      const sink = server.open(request, { onDrain() {}, onGone() {} }, null);
      const begun = server.begin(request, 200, { "content-type": "text/event-stream" });
      for (let i = 0; i < 3; i++) sink.write(`data: ${i}\n\n`);
      sink.end();
      return begun;
    }
    case "/none":
      return server.answer(request, 204, {}, null);
    case "/last":
      return server.answer(request, 400, { connection: "close" }, "bye");
    default:
      return text(404, "unknown");
  }
}

beforeAll(() => {
  server = new HttpServer({ fetch: answer }, { ...LOCAL, warn: (what) => warned.push(what) });
});
afterAll(() => server.stop(true));

/** Reads until the server closes or is silent for a while. Returns the bytes, and whether it closed. */
async function talk({
  name,
  sent,
  received: wanted,
  closed: closes,
}: Recording): Promise<Pick<Recording, "received" | "closed">> {
  const socket = net.connect(server.port, "127.0.0.1");
  let received = "";
  let closed = false;
  let last = performance.now();
  socket.on("data", (data) => {
    received += data.toString("latin1");
    last = performance.now();
  });
  socket.on("close", () => {
    closed = true;
  });
  socket.on("error", () => {});
  for (const part of sent) {
    // Bytes that arrive together with a request for another protocol are skipped.
    if (name.startsWith("upgrade") && part !== sent[0]) await eventually(() => received !== "");
    socket.write(Buffer.from(part, "latin1"));
    await Bun.sleep(PART_MS);
  }
  // A busy machine may be late with expected bytes, so silence counts only after they have arrived.
  const undated = () => received.replace(/date: [^\r]+/g, "date: <date>");
  for (let i = 0; i < 400 && !closed && (closes || undated().length < wanted.length); i++) await Bun.sleep(5);
  last = performance.now();
  while (!closed && performance.now() - last < SILENT_MS) await Bun.sleep(5);
  const wasClosed = closed;
  socket.destroy();
  return { received: undated(), closed: wasClosed };
}

test("the recorded requests are the ones sent here", () => {
  const sent: Record<string, string[]> = JSON.parse(read("sent.json"));
  expect(recorded.map(({ name, sent }) => [name, sent])).toEqual(Object.entries(sent));
  expect(recorded.length).toBeGreaterThan(150);
});

test("every exchange equals uvicorn's to the byte, and ends in the same way", async () => {
  const wrong: (Recording & { readonly got: object })[] = [];
  await Promise.all(
    recorded.map(async (one) => {
      const got = await talk(one);
      if (got.received !== one.received || got.closed !== one.closed) wrong.push({ ...one, got });
    }),
  );
  expect(wrong.filter(({ name }) => name !== NEWER_PARSER)).toEqual([]);
  // When this recording passes, remove it from the table.
  expect(wrong.map(({ name }) => name)).toEqual([NEWER_PARSER]);
  const theirs = recorded.flatMap((one) =>
    one.name === NEWER_PARSER ? ["Invalid HTTP request received."] : one.warned,
  );
  expect(warned.toSorted()).toEqual(theirs.toSorted());
  expect(new Set(theirs)).toEqual(new Set(["Invalid HTTP request received.", "Unsupported upgrade request."]));
}, 20_000);
