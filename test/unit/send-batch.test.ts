/** Do streams get the same bytes when the events of a step leave by one call, whatever happens in the middle of a step? */
import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import fc from "fast-check";
import { streamWritesOf } from "../../src/app/stream-writes.ts";
import type { EventSink } from "../../src/http/sink.ts";
import { Connection } from "../../src/http/socket/connection.ts";
import type { Exchange } from "../../src/http/socket/exchange.ts";
import { nativeSend } from "../../src/http/socket/native-send.ts";
import { type NativeSend, SendBatch } from "../../src/http/socket/send-batch.ts";
import { Kernel, Server } from "./http1-kernel.ts";

const EAGAIN = 11;
const EPIPE = 32;
const ECONNRESET = 104;
const NOTHING = Buffer.alloc(0);

/** Descriptors by number; the lowest free one is given out next, as the system does it. */
class Descriptors {
  readonly open: (Wire | undefined)[] = [];

  take(wire: Wire): number {
    const free = this.open.indexOf(undefined);
    const fd = free < 0 ? this.open.length : free;
    this.open[fd] = wire;
    return fd;
  }

  /** As send-batch.c, over these. Whoever writes to one that is closed fails the test. */
  readonly send: NativeSend = (bytes, entries, count) => {
    let short = 0;
    for (let at = 0; at < count * 4; at += 4) {
      const [fd, from, length] = entries.subarray(at, at + 3) as unknown as [number, number, number];
      const wire = this.open[fd];
      if (fd >= 0 && wire === undefined) throw new Error(`a write to the closed descriptor ${fd}`);
      entries[at + 3] = wire === undefined ? length : wire.native(bytes, from, length);
      if (entries[at + 3] !== length) short++;
    }
    return short;
  };
}

/** A socket with a number of its own. `reset`: its client has reset it, and nobody has noticed. */
class Wire extends Kernel {
  #reset = 0;
  readonly #table: Descriptors;

  constructor(table: Descriptors) {
    super();
    this.#table = table;
    this.fd = table.take(this);
  }

  reset(): void {
    this.#reset ||= ECONNRESET;
  }

  native(bytes: Uint8Array, from: number, length: number): number {
    if (this.#reset > 0) {
      const errno = this.#reset;
      this.#reset = EPIPE;
      return -errno;
    }
    return super.write(bytes, from, length) || -EAGAIN;
  }

  override write(bytes: Uint8Array, from: number, length: number): number {
    return this.#reset > 0 ? -1 : super.write(bytes, from, length);
  }

  close(): void {
    if (this.fd >= 0) this.#table.open[this.fd] = undefined;
    this.fd = -1;
  }

  override end(): void {
    super.end();
    this.close();
  }

  override terminate(): void {
    super.terminate();
    this.close();
  }
}

/** Streams that keep what they have to say while their client is slow, as answers do. */
class World extends Server {
  readonly table = new Descriptors();
  readonly wires: Wire[] = [];
  readonly connections: Connection[] = [];
  readonly streams: EventSink[] = [];
  readonly #kept: string[] = [];
  readonly #said: number[] = [];

  constructor(batched: boolean) {
    super();
    if (batched) this.sends = new SendBatch(this.table.send);
  }

  override handle(exchange: Exchange): void {
    const of = this.streams.length;
    const say = (what: string) => this.told.push(`${of} ${what}`);
    const owner = {
      onDrain: () => {
        say("drain");
        this.#send(of, "");
      },
      onGone: () => say("gone"),
    };
    this.#kept[of] = "";
    this.#said[of] = 0;
    const held = (bytes: number) => {
      this.held += bytes;
    };
    this.streams[of] = exchange.open(owner, { held });
    exchange.begin(200, { "content-type": "text/event-stream" });
  }

  openOne(room: number): void {
    const wire = new Wire(this.table);
    wire.room = room;
    this.wires.push(wire);
    const connection = new Connection(wire, this);
    this.connections.push(connection);
    connection.data(Buffer.from("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
  }

  /** An event of stream `of` that says whose it is; `more`: 1, another one behind it; 2, also if the stream is full. */
  event(of: number, bytes: number, more: number): void {
    const next = () => `<${of}:${this.#said[of]!++}${"x".repeat(bytes)}>`;
    this.#send(of, next());
    if (more === 1) this.#send(of, next());
    else if (more === 2 && this.#kept[of] === "") this.streams[of]!.writeParts(Buffer.from(next()), NOTHING, NOTHING);
  }

  #send(of: number, event: string): void {
    const stream = this.streams[of]!;
    this.#kept[of] += event;
    if (this.#kept[of] === "" || stream.full) return;
    const text = this.#kept[of]!;
    this.#kept[of] = "";
    stream.writeParts(Buffer.from(text), NOTHING, NOTHING);
  }
}

interface Act {
  readonly kind: "cut" | "break" | "end" | "open" | "text" | "shutdown" | "peer";
  readonly of: number;
  /** Before which event of its step. */
  readonly before: number;
}
interface Room {
  readonly kind: "room" | "space";
  readonly of: number;
  readonly bytes: number;
}
type Step =
  | { readonly kind: "step"; readonly bytes: number; readonly more: number; readonly acts: readonly Act[] }
  | Room
  | Act;

const act: fc.Arbitrary<Act> = fc.record({
  kind: fc.constantFrom("cut", "break", "end", "open", "text", "shutdown", "peer"),
  of: fc.nat(7),
  before: fc.nat(7),
});
const size = fc.oneof(fc.nat(300), fc.nat(30_000), fc.nat(70_000));
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("step" as const),
      bytes: size,
      more: fc.nat(80),
      acts: fc.array(act, { maxLength: 2 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constantFrom("room" as const, "space" as const), of: fc.nat(7), bytes: size }),
  },
  { weight: 1, arbitrary: act },
);

/** All that can be seen of it, after each thing that happens. Reset: by their client in the middle of a step. */
async function lived(batched: boolean, steps: readonly Step[], reset: Set<number>) {
  const world = new World(batched);
  const { wires, streams, connections } = world;
  for (let i = 0; i < 5; i++) world.openOne(i * 400);
  const acts = ({ kind, of }: Act, inStep: boolean) => {
    const at = of % streams.length;
    if (kind === "open") world.openOne(2000);
    else if (kind === "cut") connections[at]!.cut();
    else if (kind === "break") streams[at]!.reset();
    else if (kind === "end") streams[at]!.end();
    else if (kind === "text") streams[at]!.write(`text of ${at}`);
    else if (kind === "shutdown") connections[at]!.shutDown();
    else {
      wires[at]!.reset();
      if (inStep) reset.add(at);
    }
  };
  const seen: unknown[][] = [];
  for (const one of steps) {
    if (one.kind === "step") {
      world.sends?.begin();
      const count = streams.length;
      for (let i = 0; i < count; i++) {
        for (const each of one.acts) if (each.before === i) acts(each, true);
        world.event(i, one.bytes, Math.floor(one.more / 3 ** (i % 4)) % 3);
      }
      world.sends?.end();
      seen.push(streams.map(({ full }) => full));
    } else if ("bytes" in one) {
      const at = one.of % wires.length;
      wires[at]!.room += one.bytes;
      // Room is there for a while before anybody is told of it.
      if (one.kind === "room" && wires[at]!.fd >= 0) connections[at]!.drain();
    } else acts(one, false);
    await Promise.resolve();
    // Bun tells of what was closed in a turn of its own.
    for (const [i, wire] of wires.entries()) if (wire.fd < 0) connections[i]!.lost();
    seen.push(wires.map(({ ended, terminated }, i) => [streams[i]!.full, ended, terminated]));
  }
  for (const [i, wire] of wires.entries()) {
    wire.room = Number.POSITIVE_INFINITY;
    if (wire.fd >= 0) connections[i]!.drain();
  }
  await Promise.resolve();
  for (const connection of connections) connection.lost();
  const told = streams.map((_, of) => world.told.filter((what) => what.startsWith(`${of} `)));
  return { seen, told, held: world.held, written: wires.map(({ written }) => written) };
}

test("by one call or by one each: the same bytes, ends and accounts, whatever comes in the middle of a step", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const reset = new Set<number>();
      const single = await lived(false, steps, reset);
      const batched = await lived(true, steps, reset);
      // Whose client leaves between an event and the step's call may miss that event: nobody reads it.
      for (const of of reset) {
        const [a, b] = [single, batched].map(({ written }) => written[of]!) as [string, string];
        expect(a.startsWith(b) || b.startsWith(a)).toBe(true);
        for (const one of [single, batched]) {
          one.written[of] = "";
          for (const each of one.seen) each[of] = null;
          one.told[of] = one.told[of]!.filter((what) => what.endsWith("gone"));
        }
      }
      expect(batched).toEqual(single);
      expect(batched.held).toBe(0);
      for (const [of, text] of batched.written.entries())
        for (const [, whose] of text.matchAll(/<(\d+):/g)) expect(Number(whose)).toBe(of);
    }),
    { numRuns: 400 },
  );
});

test("a step is one call, an event one entry; a full buffer and a full list are calls of their own", () => {
  const calls: number[] = [];
  const world = new World(false);
  const counted: NativeSend = (bytes, entries, count) => {
    calls.push(count);
    return world.table.send(bytes, entries, count);
  };
  world.sends = new SendBatch(counted);
  const step = (bytes: number) => {
    calls.length = 0;
    world.sends!.begin();
    for (let of = 0; of < world.streams.length; of++) world.event(of, bytes, 0);
    world.sends!.end();
    return calls;
  };
  for (let i = 0; i < 600; i++) world.openOne(Number.POSITIVE_INFINITY);
  expect(step(1)).toEqual([512, 88]);
  expect(step(1000).length).toBe(Math.ceil(600 / Math.floor(65_536 / 1020)));
  expect(step(70_000)).toEqual([]); // too long for the buffer: sent by itself
  for (const { written } of world.wires) expect(written.match(/<\d+:\d+x+>/g)?.length).toBe(3);
});

test("a connection that is closed in the middle of a step leaves the list: its number may be another's", () => {
  const world = new World(true);
  for (let i = 0; i < 2; i++) world.openOne(10_000);
  world.sends!.begin();
  world.event(0, 1, 0);
  world.event(1, 1, 0);
  world.wires[0]!.close();
  world.connections[0]!.lost();
  world.openOne(10_000); // gets the number of the first
  const before = world.wires[2]!.written;
  world.sends!.end();
  expect(world.wires[2]!.written).toBe(before);
  expect(world.wires[1]!.written).toContain("<1:0x>");
});

test("what became of the first event of a connection is known before its second one is written", () => {
  const calls: number[] = [];
  const world = new World(false);
  world.sends = new SendBatch((bytes, entries, count) => {
    calls.push(count);
    return world.table.send(bytes, entries, count);
  });
  world.openOne(10_000);
  world.sends.begin();
  world.event(0, 1, 2);
  world.sends.end();
  expect(calls).toEqual([1, 1]);
});

test("outside of a step nothing waits", () => {
  const world = new World(true);
  world.openOne(10_000);
  world.event(0, 1, 0);
  expect(world.wires[0]!.written).toContain("<0:0x>");
});

test("where native code is not to be had, events leave one by one, and it is said why", async () => {
  const folder = mkdtempSync(join(tmpdir(), "understudy-send-"));
  const source = (text: string) => {
    const file = join(folder, `${Bun.hash(text)}.c`);
    writeFileSync(file, text);
    return pathToFileURL(file);
  };
  try {
    expect(await nativeSend("darwin")).toEqual({ refused: "there is none for darwin" });
    expect(await nativeSend("linux", pathToFileURL(join(folder, "none.c")))).toEqual({
      refused: expect.stringContaining("bun:ffi cannot compile it ("),
    });
    expect(await nativeSend("linux", source("int try_send( {"))).toEqual({
      refused: expect.stringContaining("bun:ffi cannot compile it ("),
    });
    const forbidden = "int send_batch(void *bytes, int *entries, int count) { return 0; } int try_send() { return 1; }";
    expect(await nativeSend("linux", source(forbidden))).toEqual({ refused: "send fails with errno 1" });
  } finally {
    rmSync(folder, { recursive: true });
  }
  const of = async (...order: Parameters<typeof streamWritesOf>) => {
    const { mode, why } = await streamWritesOf(...order);
    return [mode, why];
  };
  expect(await of({ streamWrites: "auto" }, "darwin")).toEqual(["single", "there is none for darwin"]);
  expect(await of({ streamWrites: "auto", tls: "self-signed" }, "linux")).toEqual(["single", "TLS is Bun's"]);
  expect(await of({ streamWrites: "single" })).toEqual(["single", undefined]);
  expect(of({ streamWrites: "batched" }, "win32")).rejects.toThrow("there is none for win32");
});
