/** Does a sink keep its promises on a real socket: order, fullness, ends, and clients that leave? */
import { afterAll, expect, test } from "bun:test";
import net from "node:net";
import { Elysia } from "elysia";
import type { SinkEvents } from "../../src/protocol/sink.ts";
import { SseStream } from "../../src/protocol/sse.ts";

/** What the next request's stream does. */
let serve: (sink: SseStream) => void = () => {};
let events: SinkEvents = { onDrain() {}, onGone() {} };
const app = new Elysia({ serve: { idleTimeout: 1 } })
  .get("/", ({ request, server }) => {
    server?.timeout(request, 0);
    const sink = new SseStream({ onDrain: () => events.onDrain(), onGone: () => events.onGone() });
    serve(sink);
    return new Response(sink.body(), { headers: { "content-type": "text/event-stream" } });
  })
  .listen({ port: 0, hostname: "127.0.0.1" });
afterAll(() => app.stop(true));

class Client {
  readonly socket = net.connect(app.server!.port!, "127.0.0.1");
  readonly closed: Promise<void>;
  failed = false;
  #received: Buffer[] = [];

  constructor() {
    this.closed = new Promise((resolve) => this.socket.on("close", () => resolve()));
    this.socket.on("data", (part: Buffer) => this.#received.push(part));
    this.socket.on("error", () => {
      this.failed = true;
    });
    this.socket.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }

  get raw(): string {
    return Buffer.concat(this.#received).toString();
  }

  /** The data of each HTTP chunk so far; "" is the last chunk. */
  get chunks(): string[] {
    const body = this.raw.slice(this.raw.indexOf("\r\n\r\n") + 4);
    const found: string[] = [];
    for (let at = 0; at < body.length; ) {
      const line = body.indexOf("\r\n", at);
      const size = Number.parseInt(body.slice(at, line), 16);
      found.push(body.slice(line + 2, line + 2 + size));
      at = line + 2 + size + 2;
    }
    return found;
  }
}

async function until(holds: () => boolean, what: string): Promise<void> {
  for (let tries = 0; !holds(); tries++) {
    if (tries > 2000) throw new Error(`never happened: ${what}`);
    await Bun.sleep(5);
  }
}

const event = (text: string | number) => `data: ${text}\n\n`;

test("each event is an HTTP chunk of its own, also two of one turn and those from before the body is read", async () => {
  const results: boolean[] = [];
  serve = (sink) => {
    results.push(sink.write(event("early")));
    expect(sink.full).toBe(true);
    sink.write(event("early too"));
    setTimeout(() => {
      expect(sink.full).toBe(false);
      results.push(sink.write(event("a")), sink.write(event("b")));
      sink.end();
      results.push(sink.write(event("after the end")));
    }, 20);
  };
  let drained = 0;
  events = { onDrain: () => drained++, onGone: () => expect.unreachable() };
  const client = new Client();
  await until(() => client.raw.endsWith("0\r\n\r\n"), "last chunk");
  expect(client.chunks).toEqual([event("early"), event("early too"), event("a"), event("b"), ""]);
  expect(client.raw).toContain("Transfer-Encoding: chunked");
  expect(results).toEqual([false, true, true, true]);
  expect(drained).toBe(1);
  client.socket.destroy();
});

test("a stream that ends before it is read is complete, and the connection stays usable", async () => {
  serve = (sink) => {
    sink.write(event("only"));
    sink.end();
  };
  events = { onDrain: () => expect.unreachable(), onGone: () => expect.unreachable() };
  const client = new Client();
  await until(() => client.raw.endsWith("0\r\n\r\n"), "last chunk");
  expect(client.chunks).toEqual([event("only"), ""]);
  client.socket.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await until(() => client.raw.split("0\r\n\r\n").length === 3, "second answer");
  client.socket.destroy();
});

test("a silent stream outlives the idle timeout", async () => {
  let sink: SseStream | null = null;
  serve = (made) => {
    sink = made;
  };
  events = { onDrain() {}, onGone: () => expect.unreachable() };
  const client = new Client();
  await until(() => sink !== null, "request");
  await Bun.sleep(5500); // given 1 s, Bun closes at 4
  sink!.write(event("late"));
  sink!.end();
  await until(() => client.raw.endsWith("0\r\n\r\n"), "last chunk");
  expect(client.chunks).toEqual([event("late"), ""]);
  client.socket.destroy();
}, 20_000);

for (const begun of [false, true])
  test(`reset breaks off ${begun ? "a stream that has begun" : "before the first event"}: no last chunk`, async () => {
    serve = (sink) => {
      setTimeout(() => {
        if (begun) sink.write(event("a"));
        setTimeout(() => sink.reset(), 20);
      }, 10);
    };
    events = { onDrain() {}, onGone: () => expect.unreachable() };
    const client = new Client();
    await client.closed;
    expect(client.raw.endsWith("0\r\n\r\n")).toBe(false);
    expect(client.failed).toBe(true);
  });

for (const how of ["FIN", "RST"] as const)
  for (const state of ["idle", "writing"] as const)
    test(`a client that leaves an ${state} stream by ${how} is noticed once, and writing on does no harm`, async () => {
      let sink: SseStream | null = null;
      serve = (made) => {
        sink = made;
      };
      let gone = 0;
      events = { onDrain() {}, onGone: () => gone++ };
      const client = new Client();
      await until(() => sink !== null, "request");
      await Bun.sleep(10);
      if (state === "writing") {
        sink!.write(event("a"));
        await until(() => client.raw.includes("data: a"), "event");
      }
      if (how === "FIN") client.socket.end();
      else client.socket.resetAndDestroy();
      await until(() => gone > 0, "onGone");
      expect(sink!.write(event("b"))).toBe(true);
      sink!.end();
      sink!.reset();
      await Bun.sleep(20);
      expect(gone).toBe(1);
      client.socket.destroy();
    });

test("a reader that stalls makes the sink full; nothing is lost, doubled or piled up", async () => {
  let sink!: SseStream;
  let next = 0;
  let refused = 0;
  let drains = 0;
  const total = 60_000;
  const padding = "x".repeat(200);
  const pump = () => {
    for (let burst = 0; next < total && burst < 500; burst++) {
      if (!sink.write(event(`${next++} ${padding}`))) {
        refused++;
        return;
      }
    }
    if (next < total) setImmediate(pump);
    else sink.end();
  };
  serve = (made) => {
    sink = made;
    setImmediate(pump);
  };
  events = {
    onDrain() {
      drains++;
      pump();
    },
    onGone: () => expect.unreachable(),
  };
  const client = new Client();
  client.socket.pause();
  await until(() => refused > 0, "full");
  const stoppedAt = next;
  await Bun.sleep(50);
  expect(sink.full).toBe(true);
  expect(next).toBe(stoppedAt);
  expect(next).toBeLessThan(total);
  client.socket.resume();
  await until(() => client.raw.endsWith("0\r\n\r\n"), "last chunk");
  expect(drains).toBe(refused);
  const numbers = client.chunks.slice(0, -1).map((chunk) => Number(chunk.match(/^data: (\d+) x+\n\n$/)?.[1]));
  expect(numbers).toEqual(Array.from({ length: total }, (_, i) => i));
  client.socket.destroy();
});

test("a client that leaves while the sink is full is gone, not drained", async () => {
  let sink!: SseStream;
  const pump = () => {
    for (let burst = 0; burst < 500; burst++) if (!sink.write(event("x".repeat(1000)))) return;
    setImmediate(pump);
  };
  serve = (made) => {
    sink = made;
    setImmediate(pump);
  };
  const seen: string[] = [];
  events = { onDrain: () => seen.push("drain"), onGone: () => seen.push("gone") };
  const client = new Client();
  client.socket.pause();
  await until(() => sink?.full === true, "full");
  client.socket.resetAndDestroy();
  await until(() => seen.length > 0, "onGone");
  await Bun.sleep(20);
  expect(seen).toEqual(["gone"]);
});
