/** Do the same bytes leave a connection whatever the kernel takes at a time, and is everybody told of its end once? */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { Connection, type House, type Socket } from "../../src/protocol/http1/connection.ts";
import type { Exchange } from "../../src/protocol/http1/exchange.ts";
import type { SocketStream } from "../../src/protocol/http1/stream.ts";

/** A socket whose kernel has room for as many bytes as it is given. */
class Kernel implements Socket {
  readonly remoteAddress = "127.0.0.1";
  readonly remotePort = 1;
  room = 0;
  written = "";
  ended = false;
  terminated = false;
  paused = false;

  write(bytes: Uint8Array, from: number, length: number): number {
    if (this.ended || this.terminated) return -1;
    const taken = Math.min(length, this.room);
    this.room -= taken;
    this.written += Buffer.from(bytes.subarray(from, from + taken)).toString("latin1");
    return taken;
  }

  end(): void {
    this.ended = true;
  }

  terminate(): void {
    this.terminated = true;
  }

  pause(): void {
    this.paused = true;
  }

  resume(): void {
    this.paused = false;
  }
}

interface Emitting {
  readonly stream: SocketStream;
  left: number;
}

/** Answers `/whole/N` with N letters and `/stream/N` with N events, one per `tick`. */
class Server implements House {
  readonly scheme = "http";
  readonly headBytes = 10_000;
  readonly emitting: Emitting[] = [];
  held = 0;
  readonly told: string[] = [];

  handle(exchange: Exchange): void {
    const [, kind, number] = new URL(exchange.request.url).pathname.split("/");
    const count = Number(number);
    if (kind === "whole") {
      exchange.answer(200, { "content-type": "text/plain" }, "w".repeat(count));
      return;
    }
    const owner = { onDrain: () => this.told.push("drain"), onGone: () => this.told.push("gone") };
    const held = (bytes: number) => {
      this.held += bytes;
    };
    const stream = exchange.open(owner, { held });
    exchange.begin(200, { "content-type": "text/event-stream" });
    if (count === 0) stream.end();
    else this.emitting.push({ stream, left: count });
  }

  /** An event on each stream. */
  tick(): void {
    for (const one of this.emitting.splice(0)) {
      if (one.left % 3 === 0) one.stream.write(`data: é ${one.left}\n\n`);
      else one.stream.writeParts(Buffer.from("data: "), Buffer.from("x".repeat(one.left * 7)), Buffer.from("\n\n"));
      if (--one.left === 0) one.stream.end();
      else this.emitting.push(one);
    }
  }

  date(): string {
    return "now";
  }

  idle(): void {}
  stirred(): void {}
  waits(): void {}
  asked(): void {}
}

const path = fc.oneof(
  fc.integer({ min: 0, max: 90_000 }).map((count) => `/whole/${count}`),
  fc.integer({ min: 0, max: 12 }).map((count) => `/stream/${count}`),
);
const requests = fc.array(path, { minLength: 1, maxLength: 4 });
const textOf = (paths: readonly string[]) => paths.map((one) => `GET ${one} HTTP/1.1\r\nHost: x\r\n\r\n`).join("");

/** All that leaves when there is always room. */
function atOnce(paths: readonly string[]): string {
  const [kernel, server] = [new Kernel(), new Server()];
  kernel.room = Number.POSITIVE_INFINITY;
  new Connection(kernel, server).data(Buffer.from(textOf(paths)));
  while (server.emitting.length > 0) server.tick();
  return kernel.written;
}

const step = fc.record({ of: fc.nat(2), kind: fc.constantFrom("feed", "room", "tick"), amount: fc.nat(70_000) });

test("however the kernel takes bytes, and whoever else writes meanwhile, each connection gets its own", () => {
  fc.assert(
    fc.property(fc.array(requests, { minLength: 3, maxLength: 3 }), fc.array(step, { maxLength: 60 }), (all, steps) => {
      const server = new Server();
      const ends = all.map((paths) => {
        const kernel = new Kernel();
        return { kernel, connection: new Connection(kernel, server), rest: Buffer.from(textOf(paths)) };
      });
      const feed = (end: (typeof ends)[number], amount: number) => {
        if (end.kernel.paused || end.rest.length === 0) return;
        const part = end.rest.subarray(0, Math.max(1, amount % 100));
        end.rest = end.rest.subarray(part.length);
        end.connection.data(part);
      };
      const makeRoom = ({ kernel, connection }: (typeof ends)[number], amount: number) => {
        kernel.room = amount;
        connection.drain();
      };
      for (const { of, kind, amount } of steps) {
        if (kind === "tick") server.tick();
        else if (kind === "feed") feed(ends[of]!, amount);
        else makeRoom(ends[of]!, amount);
      }
      while (server.emitting.length > 0 || ends.some(({ rest }) => rest.length > 0)) {
        server.tick();
        for (const end of ends) feed(end, 99);
      }
      for (const end of ends) makeRoom(end, Number.POSITIVE_INFINITY);
      expect(ends.map(({ kernel }) => kernel.written)).toEqual(all.map(atOnce));
      expect(server.held).toBe(0);
      expect(server.told).not.toContain("gone");
    }),
    { numRuns: 300 },
  );
});

const streaming = () => {
  const [kernel, server] = [new Kernel(), new Server()];
  const connection = new Connection(kernel, server);
  connection.data(Buffer.from(textOf(["/stream/5"])));
  return { kernel, server, connection };
};

test("a client that leaves is told of once, and what it had not taken is no longer held", () => {
  const { kernel, server, connection } = streaming();
  server.tick();
  expect(server.held).toBeGreaterThan(0);
  connection.lost();
  connection.lost();
  expect(server.told).toEqual(["gone"]);
  expect(server.held).toBe(0);
  server.tick();
  expect(kernel.written).toBe("");
});

test("a socket that has closed is full until that is told", () => {
  const { kernel, server, connection } = streaming();
  kernel.room = 10_000;
  connection.drain();
  kernel.terminate();
  const { stream } = server.emitting[0]!;
  expect(stream.write("x")).toBe(false);
  expect([stream.full, server.held > 0, server.told.includes("gone")]).toEqual([true, true, false]);
  connection.lost();
  expect([server.held, server.told.filter((one) => one === "gone")]).toEqual([0, ["gone"]]);
});

test("a stream that begins after its client has left is told so", () => {
  const told: string[] = [];
  const kernel = new Kernel();
  const server = new Server();
  let late: Exchange | null = null;
  server.handle = (exchange) => {
    late = exchange;
  };
  const connection = new Connection(kernel, server);
  connection.data(Buffer.from(textOf(["/stream/1"])));
  connection.lost();
  late!.open({ onDrain() {}, onGone: () => told.push("gone") }, null);
  late!.begin(200, {});
  late!.answer(200, {}, "too late");
  expect(told).toEqual(["gone"]);
  expect(kernel.written).toBe("");
});

test("what is no HTTP ends a stream that runs, and the refusal leaves first", () => {
  const { kernel, server, connection } = streaming();
  kernel.room = 10;
  connection.drain();
  connection.data(Buffer.from("nonsense\r\n\r\n"));
  expect(server.told).toContain("gone");
  expect(kernel.ended).toBe(false);
  kernel.room = 10_000;
  connection.drain();
  expect(kernel.written).toEndWith("\r\n\r\nInvalid HTTP request received.");
  expect(kernel.ended).toBe(true);
});

test("a stream that is broken off has no last chunk: FIN where all has left, RST where not", () => {
  for (const room of [10_000, 0]) {
    const { kernel, server, connection } = streaming();
    kernel.room = room;
    connection.drain();
    server.tick();
    server.emitting[0]!.stream.reset();
    expect([kernel.ended, kernel.terminated]).toEqual([room > 0, room === 0]);
    expect(kernel.written).not.toContain("\r\n0\r\n");
    connection.lost();
    expect(server.told.filter((one) => one === "gone")).toEqual([]);
  }
});
