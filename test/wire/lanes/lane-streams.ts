/** Streams of an engine over simulated sockets. Rows, lanes and connections are the real ones; the test replaces `send`. */
import { cc, JSCallback, type Pointer, toArrayBuffer } from "bun:ffi";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LANE_MACROS, type Lane, Lanes, type NativeWrite, TokenTexts } from "../../../src/engine/interface/lanes.ts";
import type { Finish, Receiver } from "../../../src/engine/interface/types.ts";
import type { LiveRequest } from "../../../src/engine/live.ts";
import { Connection } from "../../../src/wire/http1/connection.ts";
import type { Exchange } from "../../../src/wire/http1/exchange.ts";
import type { SocketStream } from "../../../src/wire/http1/stream.ts";
import { addressesInLibrary } from "../../../src/wire/lanes/native-lanes.ts";
import { Outbox } from "../../outbox.ts";
import { Kernel, Server } from "../http1/kernel.ts";

export const EAGAIN = 11;
export const EPIPE = 32;
export const ECONNRESET = 104;
export const EBADF = 9;

const addresses = await addressesInLibrary();

type Send = (fd: number, bytes: Uint8Array) => number;

/** Compiles lanes.c with a `send` of the test, which returns the number of accepted bytes, or a negative error number. */
function compiled(): { readonly write: NativeWrite; readonly hear: (send: Send) => void } {
  const folder = mkdtempSync(join(tmpdir(), "understudy-lanes-"));
  const source = join(folder, "lanes.c");
  const lanes = new URL("../../../src/wire/lanes/lanes.c", import.meta.url).pathname;
  writeFileSync(
    source,
    `typedef int (*RecordingReceiver)(int, const void *, int);
     static RecordingReceiver heard;
     void hear(RecordingReceiver send) { heard = send; }
     long the_tests_send(long number, long fd, const void *bytes, long length, long flags, long to, long to_length);
     #undef AT_SYSCALL
     #define AT_SYSCALL the_tests_send
     #include "${lanes}"
     long the_tests_send(long number, long fd, const void *bytes, long length, long flags, long to, long to_length) {
       int taken = heard((int)fd, bytes, (int)length);
       if (taken >= 0) return taken;
       error_number = -taken;
       return -1;
     }`,
  );
  const { symbols } = cc({
    source,
    define: { ...LANE_MACROS, ...addresses },
    flags: "-nostdlib",
    symbols: {
      write_rows: { args: ["ptr", "ptr", "ptr", "ptr", "ptr", "ptr"], returns: "i32" },
      hear: { args: ["ptr"], returns: "void" },
    },
  });
  rmSync(folder, { recursive: true });
  let now: Send = () => 0;
  const callback = new JSCallback(
    (fd: number, at: Pointer, length: number) => now(fd, new Uint8Array(toArrayBuffer(at, 0, length))),
    { args: ["i32", "ptr", "i32"], returns: "i32" },
  );
  symbols.hear(callback.ptr);
  return {
    write: symbols.write_rows,
    hear: (send) => {
      now = send;
    },
  };
}

/** A table of file descriptors. Like a system, it assigns the lowest free number. */
export class Descriptors {
  readonly open: (Wire | undefined)[] = [];
  readonly wrong: string[] = [];

  take(wire: Wire): number {
    const free = this.open.indexOf(undefined);
    const fd = free < 0 ? this.open.length : free;
    this.open[fd] = wire;
    return fd;
  }

  readonly send: Send = (fd, bytes) => {
    const wire = this.open[fd];
    if (wire === undefined) this.wrong.push(`a write to the closed descriptor ${fd}`);
    return wire?.native(bytes) ?? -EBADF;
  };
}

/** A socket with a file descriptor. `reset`: simulates a reset by the client that the server has not noticed. */
export class Wire extends Kernel {
  #reset = 0;
  /** Errors of the next native sends. */
  readonly errors: number[] = [];
  natively = 0;
  readonly #table: Descriptors;

  constructor(table: Descriptors) {
    super();
    this.#table = table;
    this.fd = table.take(this);
  }

  reset(): void {
    this.#reset ||= ECONNRESET;
  }

  native(bytes: Uint8Array): number {
    this.natively++;
    const error = this.errors.shift() ?? this.#reset;
    if (this.#reset > 0) this.#reset = EPIPE;
    return error > 0 ? -error : super.write(bytes, 0, bytes.length) || -EAGAIN;
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

/** Text of a token. Ids continue from token to token within a stream, so that the text shows the order. */
export const pieceOf = (id: number): string => `${id}${"x".repeat(id % 7 === 6 ? 300 : (id * 13) % 90)}`;
const SUFFIX = Buffer.from("-".repeat(120));

/** An answer that shows each token by itself while its client keeps up, and otherwise keeps the tokens as text. */
class Answer implements Receiver {
  kept = "";
  /** Counts over all tokens, including those sent by native code. */
  tokens = 0;
  bytes = 0;
  finish: Finish | null = null;
  stream!: SocketStream;
  live!: LiveRequest;
  gone = false;
  /** Runs when the next tokens arrive. */
  act: (() => void) | null = null;
  #lane: Lane | null = null;
  readonly #prefix: Buffer;

  constructor(readonly of: number) {
    this.#prefix = Buffer.from(`<${of}:`);
  }

  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null): void {
    this.act?.();
    this.act = null;
    if (this.gone) return;
    this.tokens += count;
    const [id] = ids.subarray(at, at + 1);
    if (count === 1 && finish === null && this.kept === "" && !this.stream.full) {
      const piece = Buffer.from(pieceOf(id!));
      this.bytes += this.#prefix.length + piece.length + SUFFIX.length;
      this.stream.writeParts(this.#prefix, piece, SUFFIX);
      this.#lane ??= this.live.lane(this, this.stream.laneEnd, this.#prefix, SUFFIX);
      this.#lane?.goOn(id!, piece);
      return;
    }
    for (const each of ids.subarray(at, at + count)) this.kept += `<${this.of}:${pieceOf(each)}${SUFFIX}`;
    this.finish = finish;
    this.send();
  }

  went(tokens: number, bytes: number): void {
    this.tokens += tokens;
    this.bytes += bytes;
  }

  send(): void {
    if (this.stream.full) return;
    const text = this.kept;
    this.kept = "";
    this.bytes += text.length;
    if (text !== "") this.stream.write(text);
    if (this.finish !== null && !this.gone) this.stream.end();
  }

  leave(): void {
    this.gone = true;
    this.live.cancel();
  }
}

const native = compiled();

/** A server with streams. `direct`: true to send by lanes. */
export class World extends Server {
  readonly table = new Descriptors();
  readonly wires: Wire[] = [];
  readonly connections: Connection[] = [];
  readonly answers: Answer[] = [];
  readonly calls: number[] = [];
  readonly #ids: number[] = [];
  readonly #outbox: Outbox;

  constructor(direct: boolean) {
    super();
    native.hear(this.table.send);
    const counted: NativeWrite = (...of) => {
      const to = native.write(...of);
      this.calls.push(to - of[5][0]!);
      return to;
    };
    const texts = new TokenTexts();
    // The texts of every fifth token are unknown at first.
    for (let id = 0; id < 200; id++) if (id % 5 > 0) texts.learn(id, Buffer.from(pieceOf(id)));
    this.#outbox = new Outbox(direct ? new Lanes(counted, texts) : null);
  }

  override handle(exchange: Exchange): void {
    const of = this.answers.length;
    const answer = new Answer(of);
    const say = (what: string) => this.told.push(`${of} ${what}`);
    const owner = {
      onDrain: () => {
        say("drain");
        answer.send();
      },
      onGone: () => {
        say("gone");
        answer.leave();
      },
    };
    const held = (bytes: number) => {
      this.held += bytes;
    };
    this.answers.push(answer);
    answer.live = this.#outbox.add(answer);
    answer.stream = exchange.open(owner, { held }) as SocketStream;
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

  /** Reports the tokens that native code sent to their receivers. */
  settle(): void {
    for (const { live } of this.answers) live.settle();
  }

  /**
   * Simulates a step of the engine. `tokensOf`: number of tokens per stream; negative for the last ones. `acts` run when their
   * stream gets its tokens.
   */
  step(tokensOf: (of: number) => number, acts: ReadonlyMap<number, () => void> = new Map()): void {
    for (const answer of this.answers) {
      const { of, live } = answer;
      if (live.ended) continue;
      const count = tokensOf(of);
      answer.act = acts.get(of) ?? null;
      if (count === 0) continue;
      this.#ids[of] ??= 0;
      const ids = Array.from({ length: Math.abs(count) }, () => this.#ids[of]!++);
      this.#outbox.row(live, ids, count < 0);
    }
    this.#outbox.deliver();
  }
}
