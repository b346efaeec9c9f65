/** Tests that a connection sends the same bytes however the kernel accepts them, and reports its end once to each listener. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { Connection } from "../../../src/wire/http1/connection.ts";
import type { Exchange } from "../../../src/wire/http1/exchange.ts";
import { times } from "../../size.ts";
import { Kernel, Server } from "./kernel.ts";

const path = fc.oneof(
  fc.integer({ min: 0, max: 90_000 }).map((count) => `/whole/${count}`),
  fc.integer({ min: 0, max: 12 }).map((count) => `/stream/${count}`),
);
const requests = fc.array(path, { minLength: 1, maxLength: 4 });
const textOf = (paths: readonly string[]) => paths.map((one) => `GET ${one} HTTP/1.1\r\nHost: x\r\n\r\n`).join("");

const threeClients = fc.array(requests, { minLength: 3, maxLength: 3 });

/** Returns all bytes of the answers to requests, sent while the kernel accepts everything. */
function atOnce(paths: readonly string[]): string {
  const [kernel, server] = [new Kernel(), new Server()];
  kernel.room = Number.POSITIVE_INFINITY;
  new Connection(kernel, server).data(Buffer.from(textOf(paths)));
  for (server.turns(); server.emitting.length > 0; server.turns()) server.tick();
  return kernel.written;
}

const step = fc.record({
  of: fc.nat(2),
  kind: fc.constantFrom("feed", "room", "tick", "turns"),
  amount: fc.nat(70_000),
});

test("however the kernel accepts bytes, and with other connections writing meanwhile, each client gets its own answers", () => {
  fc.assert(
    fc.property(threeClients, fc.array(step, { maxLength: 60 }), fc.boolean(), (all, steps, headsWait) => {
      const server = headsWait ? new Server().withLateHeads() : new Server();
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
        else if (kind === "turns") server.turns();
        else if (kind === "feed") feed(ends[of]!, amount);
        else makeRoom(ends[of]!, amount);
      }
      for (const end of ends) makeRoom(end, Number.POSITIVE_INFINITY);
      while (server.busy || ends.some(({ rest }) => rest.length > 0)) {
        server.tick();
        server.turns();
        for (const end of ends) feed(end, 99);
      }
      expect(ends.map(({ kernel }) => kernel.written)).toEqual(all.map(atOnce));
      expect(server.held).toBe(0);
      expect(server.told).not.toContain("gone");
    }),
    { numRuns: times(300) },
  );
});

/** A connection whose client sends these requests ahead, with the answers as they should be. */
function ahead(paths: readonly string[]) {
  const [kernel, server] = [new Kernel(), new Server()];
  const answers = paths.map((path) => atOnce([path]));
  let handled = 0;
  let taken = "";
  const { handle } = server;
  server.handle = (exchange) => {
    // The next answer begins only after the last one has left, so at most one answer waits.
    expect(kernel.written).toBe(taken);
    taken += answers[handled++]!;
    handle.call(server, exchange);
  };
  const connection = new Connection(kernel, server);
  const makeRoom = (bytes: number) => {
    kernel.room = bytes;
    connection.drain();
  };
  return { kernel, server, connection, makeRoom, answers, handled: () => handled };
}

/** Answers of all sizes: some leave at once, others part by part. */
const sentAhead = fc.array(
  fc.oneof(
    { weight: 8, arbitrary: fc.integer({ min: 0, max: 200 }).map((count) => `/whole/${count}`) },
    { weight: 1, arbitrary: path },
  ),
  { minLength: 1, maxLength: 260 },
);
const pace = fc.record({ kind: fc.constantFrom("feed", "room", "tick", "turn"), amount: fc.nat(9000) });

test("requests sent ahead are answered once and in order, one per turn, after the answer before has left", () => {
  fc.assert(
    fc.property(sentAhead, fc.array(pace, { maxLength: 80 }), (paths, paces) => {
      const { kernel, server, connection, makeRoom, answers, handled } = ahead(paths);
      let rest = Buffer.from(textOf(paths));
      const feed = (bytes: number) => {
        if (rest.length === 0 || kernel.paused) return;
        const part = rest.subarray(0, bytes);
        rest = rest.subarray(part.length);
        connection.data(Buffer.from(part));
      };
      const turn = () => {
        if (server.queued.delete(connection)) connection.turn();
      };
      const happens = ({ kind, amount }: { readonly kind: string; readonly amount: number }) => {
        const before = handled();
        if (kind === "feed") feed(amount);
        else if (kind === "room") makeRoom(amount);
        else if (kind === "turn") turn();
        else server.tick();
        expect(handled() - before).toBeLessThanOrEqual(1);
      };
      for (const one of paces) happens(one);
      makeRoom(Number.POSITIVE_INFINITY);
      while (rest.length > 0 || server.busy) {
        for (const kind of ["feed", "tick", "turn"]) happens({ kind, amount: 9000 });
      }
      expect(handled()).toBe(paths.length);
      expect(kernel.written).toBe(answers.join(""));
      expect(kernel.paused).toBe(false);
    }),
    { numRuns: times(200) },
  );
});

test("a socket that delivers bytes although it was paused loses none and keeps their order", () => {
  const paths = Array.from({ length: 300 }, (_, i) => `/whole/${i}`);
  const { server, connection, kernel, answers } = ahead(paths);
  connection.data(Buffer.from(textOf(paths.slice(0, 150))));
  connection.data(Buffer.from(textOf(paths.slice(150))));
  kernel.room = Number.POSITIVE_INFINITY;
  connection.drain();
  server.turns();
  expect(kernel.written).toBe(answers.join(""));
});

test("a client that does not read has at most one answer waiting, whatever it sent ahead, and none after it has left", () => {
  const { server, connection, makeRoom, handled, kernel } = ahead(Array(5000).fill("/whole/100"));
  connection.data(Buffer.from(textOf(Array(5000).fill("/whole/100"))));
  server.turns();
  expect([handled(), kernel.paused]).toEqual([1, true]);
  makeRoom(1000); // the client reads a little
  server.turns();
  const read = handled();
  expect(read).toBeLessThan(10);
  connection.lost();
  makeRoom(Number.POSITIVE_INFINITY);
  server.turns();
  expect(handled()).toBe(read);
});

test("bytes that are not HTTP are refused at once after fewer than 100 requests, otherwise after the first 100 answers", () => {
  for (const [count, answered] of [
    [99, 0],
    [150, 100],
  ] as const) {
    const { server, connection, kernel, handled } = ahead(Array(count).fill("/whole/1"));
    kernel.room = Number.POSITIVE_INFINITY;
    connection.data(Buffer.from(`${textOf(Array(count).fill("/whole/1"))}nonsense\r\n\r\n`));
    server.turns();
    expect(handled()).toBe(answered);
    expect(kernel.written).toEndWith("Invalid HTTP request received.");
    expect(server.warned).toEqual(["Invalid HTTP request received."]);
    expect(kernel.ended).toBe(true);
  }
});

test("a stopping server completes the current answer and drops requests that were sent ahead", () => {
  const { server, connection, kernel, handled } = ahead(Array(200).fill("/whole/1"));
  connection.data(Buffer.from(textOf(Array(200).fill("/whole/1"))));
  connection.shutDown();
  server.turns();
  kernel.room = Number.POSITIVE_INFINITY;
  connection.drain();
  server.turns();
  expect([handled(), kernel.ended, kernel.paused]).toEqual([2, true, true]);
});

const streaming = () => {
  const [kernel, server] = [new Kernel(), new Server()];
  const connection = new Connection(kernel, server);
  connection.data(Buffer.from(textOf(["/stream/5"])));
  return { kernel, server, connection };
};

test("a leaving client is reported once, and its waiting bytes are no longer counted", () => {
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

test("a closed socket makes its stream full until the close is reported", () => {
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

test("bytes that are not HTTP end a running stream, after the refusal has left", () => {
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

test("a broken-off stream has no last chunk, and ends with FIN if everything has left, otherwise with RST", () => {
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

test("a connection with very many chunks in one read is not read again until its turn", () => {
  const [kernel, server] = [new Kernel(), new Server()];
  const connection = new Connection(kernel, server);
  const chunks = (count: number) => Buffer.from("1\r\nx\r\n".repeat(count));
  connection.data(Buffer.from("POST /stream/1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"));
  connection.data(chunks(2048));
  expect(kernel.paused).toBe(false);
  connection.data(chunks(2049));
  expect(kernel.paused).toBe(true);
  server.turns();
  expect(kernel.paused).toBe(false);
});

/** Returns what a connection sends with each write, while the kernel accepts everything. */
function writesOf(server: Server, path: string): { readonly writes: string[]; readonly connection: Connection } {
  const kernel = new Kernel();
  kernel.room = Number.POSITIVE_INFINITY;
  const writes: string[] = [];
  const write = kernel.write.bind(kernel);
  kernel.write = (bytes, from, length) => {
    writes.push(Buffer.from(bytes.subarray(from, from + length)).toString("utf8"));
    return write(bytes, from, length);
  };
  const connection = new Connection(kernel, server);
  connection.data(Buffer.from(textOf([path])));
  return { writes, connection };
}

test("gathered events, the end and a waiting head share one write; other events have one each", () => {
  const server = new Server().withLateHeads();
  const { writes } = writesOf(server, "/stream/5");
  expect(writes).toEqual([]);
  server.tick();
  // The first event is gathered (5 % 4 < 2), the next two are not. The last one is, together with the end.
  expect(writes[0]).toMatch(/^HTTP\/1.1 200 OK\r\n.*\r\n\r\n2b\r\ndata: x{35}\n\n\r\n$/s);
  for (let i = 0; i < 4; i++) server.tick();
  expect(writes.slice(1).map((text) => text.split("data: ").length - 1)).toEqual([1, 1, 1, 1]);
  expect(writes.at(-1)).toEndWith("\n\n\r\n0\r\n\r\n");
});

test("a head waits for at most four turns of the event loop, and leaves at once when its connection closes", () => {
  const server = new Server().withLateHeads();
  const { writes } = writesOf(server, "/stream/2");
  for (let i = 0; i < 3; i++) server.turns();
  expect(writes).toEqual([]);
  server.turns();
  expect(writes).toEqual([expect.stringMatching(/^HTTP.*\r\n\r\n$/s)]);
  server.turns();
  expect(writes).toHaveLength(1);
  const other = writesOf(server, "/stream/2");
  other.connection.cut();
  expect(other.writes).toEqual([expect.stringMatching(/^HTTP.*\r\n\r\n$/s)]);
});
