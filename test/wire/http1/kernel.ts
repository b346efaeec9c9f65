/**
 * Sockets and a server for tests of connections. The test decides how much the kernel accepts, and when events and turns of the
 * loop happen.
 */

import type { EventSink } from "../../../src/wire/http/sink.ts";
import { UnfinishedRequests } from "../../../src/wire/http/unfinished.ts";
import type { Connection, ServerSide, Socket } from "../../../src/wire/http1/connection.ts";
import type { Exchange } from "../../../src/wire/http1/exchange.ts";
import { uvicorn } from "../../../src/wire/http1/head.ts";
import { LateHeads } from "../../../src/wire/http1/stream.ts";

/** A socket whose kernel accepts as many bytes as the test gives it room for. */
export class Kernel implements Socket {
  readonly remoteAddress = "127.0.0.1";
  readonly remotePort = 1;
  /** File descriptor, for tests that need one. */
  fd = -1;
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

interface OpenStream {
  readonly stream: EventSink;
  left: number;
}

/** Answers `/whole/N` with N letters, and `/stream/N` with N events, one per `tick`. */
export class Server implements ServerSide {
  readonly scheme = "http";
  readonly style = uvicorn;
  readonly headBytes = 10_000;
  lateHeads: LateHeads | null = null;
  #later: (() => void)[] = [];
  readonly emitting: OpenStream[] = [];
  readonly queued = new Set<Connection>();
  held = 0;
  readonly told: string[] = [];
  readonly warned: string[] = [];
  readonly unfinished = new UnfinishedRequests({ nowUs: () => 0, after: () => () => {} });

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

  /** Makes heads of streams wait for their first events. */
  withLateHeads(): this {
    this.lateHeads = new LateHeads((run) => this.#later.push(run));
    return this;
  }

  /** Sends an event on each stream. Some streams end with theirs. */
  tick(): void {
    for (const one of this.emitting.splice(0)) {
      const gathers = one.left % 4 < 2;
      if (gathers) one.stream.gather?.();
      if (one.left % 3 === 0) one.stream.write(`data: é ${one.left}\n\n`);
      else one.stream.writeParts(Buffer.from("data: "), Buffer.from("x".repeat(one.left * 7)), Buffer.from("\n\n"));
      if (--one.left === 0) one.stream.end();
      else this.emitting.push(one);
      if (gathers) one.stream.release?.();
    }
  }

  date(): string {
    return "now";
  }

  refuse(): void {}

  queue(connection: Connection): void {
    this.queued.add(connection);
  }

  /** Runs turns of the event loop until no connection has more to answer. */
  turns(): void {
    for (const run of this.#later.splice(0)) run();
    for (const one of this.queued) {
      this.queued.delete(one);
      one.turn();
    }
  }

  get busy(): boolean {
    return this.emitting.length > 0 || this.queued.size > 0 || this.#later.length > 0;
  }

  warn(what: string): void {
    this.warned.push(what);
  }

  idle(): void {}
  stirred(): void {}
  waits(): void {}
  asked(): void {}
}
