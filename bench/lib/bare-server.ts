/**
 * The control of `bench:notice`: nothing but `Bun.serve` on the port after `--port`. POST `/stream` sends an event every
 * `--tick-ms`, `/flood` as many as the socket takes; both wait for the body first. GET `/gone` gives and forgets when
 * the clients left, by their X-Request-Id; microseconds since 1970.
 */
import { number } from "./options.ts";

const port = number("--port", 0);
const tickMs = number("--tick-ms", 20);
const EVENT = `data: ${"x".repeat(230)}\n\n`;

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
    if (pathname === "/gone") {
      const times = [...gone];
      gone.clear();
      return Response.json(times);
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
