/**
 * Runs a bare `Bun.serve` on the port after `--port`. `bench notice` and `bench short` compare our server with it. Routes:
 *
 * - POST `/stream`: reads the body, then sends an event every `--tick-ms` milliseconds.
 * - POST `/flood`: reads the body, then sends events as fast as the socket accepts them.
 * - GET `/gone`: returns and clears the times at which clients left, by X-Request-Id, in microseconds since 1970.
 * - GET `/page`: returns the bytes of the file after `--page`.
 * - Any other POST: parses the body and returns the JSON in the file after `--answer`.
 */
import { readFileSync } from "node:fs";
import { number, text } from "./bench.ts";

const port = number("--port", 0);
const tickMs = number("--tick-ms", 20);
const EVENT = `data: ${"x".repeat(230)}\n\n`;

const answerFile = text("--answer", "");
const answer: unknown = answerFile === "" ? {} : JSON.parse(readFileSync(answerFile, "utf8"));

const pageFile = text("--page", "");
const page = pageFile === "" ? "" : readFileSync(pageFile);

const gone = new Map<string, number>();
const left = (id: string) => gone.set(id, (performance.timeOrigin + performance.now()) * 1000);

function ticking(id: string): ReadableStream {
  let timer: Timer;
  return new ReadableStream({
    type: "direct",
    pull(out: ReadableStreamDirectController) {
      timer = setInterval(() => {
        out.write(EVENT);
        out.flush();
      }, tickMs);
      return new Promise(() => {});
    },
    cancel() {
      clearInterval(timer);
      left(id);
    },
  } as unknown as Bun.DirectUnderlyingSource);
}

function flooding(id: string): ReadableStream {
  const events = new TextEncoder().encode(EVENT.repeat(64));
  return new ReadableStream({
    pull(out) {
      out.enqueue(events);
    },
    cancel: () => void left(id),
  });
}

Bun.serve({
  hostname: "127.0.0.1",
  port,
  idleTimeout: 0,
  async fetch(request) {
    const { pathname } = new URL(request.url);
    const id = request.headers.get("x-request-id") ?? "";
    if (pathname === "/health") return new Response();
    if (pathname === "/page") return new Response(page);
    if (pathname === "/gone") {
      const times = [...gone];
      gone.clear();
      return Response.json(times);
    }
    if (pathname !== "/stream" && pathname !== "/flood") {
      const body = (await request.json()) as { messages: unknown[] };
      return body.messages.length > 0 ? Response.json(answer) : new Response(null, { status: 400 });
    }
    try {
      await request.bytes();
    } catch {
      left(id);
      return new Response(null, { status: 499 });
    }
    return new Response(pathname === "/flood" ? flooding(id) : ticking(id), {
      headers: { "content-type": "text/event-stream" },
    });
  },
});
