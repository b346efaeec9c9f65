/** Tests that our server sends a web `Response` of any kind whole, and cancels its body when the client leaves. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import net from "node:net";
import { HttpServer } from "../../../src/wire/http1/server.ts";
import { eventually } from "../../server.ts";
import { LOCAL } from "./local-options.ts";

const PART_BYTES = 100_000;
/** Number of parts that exceed the limit for a body sent in one piece. */
const LONG = 60;
let server: HttpServer;
let pulled = 0;
let cancelled = 0;

/** A response of `count` parts, produced on demand. `fails`: true if the body ends with an error. */
function parts(count: number, fails = false): Response {
  let made = 0;
  const body = new ReadableStream<Uint8Array>({
    pull(out) {
      if (made === count) return fails ? out.error(new Error("no more")) : out.close();
      pulled++;
      out.enqueue(new Uint8Array(PART_BYTES).fill(97 + (made++ % 26)));
    },
    cancel() {
      cancelled++;
    },
  });
  return new Response(body, { status: 201, headers: { "content-type": "text/plain", "x-a": "b" } });
}

const ANSWERS: Readonly<Record<string, () => Response | Promise<Response>>> = {
  "/text": () => new Response("é"),
  "/none": () => new Response(null, { status: 204 }),
  "/empty": () => new Response(""),
  "/one": () => parts(1),
  "/three": () => parts(3),
  "/endless": () => parts(Number.POSITIVE_INFINITY),
  "/long": () => parts(LONG),
  "/breaks": () => parts(LONG, true),
  "/late": async () => {
    await Bun.sleep(100);
    return parts(Number.POSITIVE_INFINITY);
  },
  "/fails": () => Promise.reject(new Error("on purpose")),
};

beforeAll(() => {
  server = new HttpServer({ fetch: (request) => ANSWERS[new URL(request.url).pathname]!() }, LOCAL);
});
afterAll(() => server.stop(true));

const ask = (path: string) => fetch(`http://127.0.0.1:${server.port}${path}`);

const letters = (count: number) =>
  Array.from({ length: count }, (_, i) => String.fromCharCode(97 + (i % 26)).repeat(PART_BYTES)).join("");

test.each([
  ["/text", 200, "é", "2"],
  ["/none", 204, "", null],
  ["/empty", 200, "", "0"],
  ["/one", 201, "a".repeat(PART_BYTES), String(PART_BYTES)],
  ["/three", 201, letters(3), String(3 * PART_BYTES)],
  ["/long", 201, letters(LONG), null],
])("%s: %i", async (path, status, body, length) => {
  const answer = await ask(path);
  expect([answer.status, await answer.text(), answer.headers.get("content-length")]).toEqual([status, body, length]);
  if (status === 201) expect(answer.headers.get("x-a")).toBe("b");
});

test("a failure before the head gives a 500, a later one breaks the connection off", async () => {
  const failed = await ask("/fails");
  expect([failed.status, await failed.text()]).toEqual([500, "Internal Server Error"]);
  expect(ask("/breaks").then((answer) => answer.text())).rejects.toThrow();
});

test("a body is read as the client reads, and cancelled when it leaves", async () => {
  const before = cancelled;
  pulled = 0;
  const socket = net.connect(server.port, "127.0.0.1");
  socket.pause();
  socket.write("GET /endless HTTP/1.1\r\n\r\n");
  await eventually(() => pulled > 2);
  await Bun.sleep(100);
  const held = pulled;
  await Bun.sleep(100);
  expect(pulled).toBe(held);
  // Bytes that the kernel accepts for a client that does not read.
  expect(held * PART_BYTES).toBeLessThan(16e6);
  socket.resume();
  await eventually(() => pulled > held + 10);
  socket.destroy();
  await eventually(() => cancelled === before + 1);
});

test("the body of an answer to a client that left earlier is cancelled unread", async () => {
  const before = cancelled;
  pulled = 0;
  const socket = net.connect(server.port, "127.0.0.1");
  socket.write("GET /late HTTP/1.1\r\n\r\n");
  await Bun.sleep(30);
  socket.destroy();
  await eventually(() => cancelled === before + 1);
  expect(pulled).toBeLessThan(LONG);
});
