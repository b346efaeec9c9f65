/**
 * What happens on one connection? Requests in, answers out in their order, refusals of what is no HTTP, and its end:
 * as uvicorn 0.54 does it (`protocols/http/httptools_impl.py`).
 */

import { logUnexpected } from "../../base/unexpected.ts";
import type { ConnectionEffect } from "../../faults/plan/types.ts";
import { PART_BYTES, PARTS_OF_A_TURN, type Unfinished, type Unfinishing } from "../http/unfinished.ts";
import { Exchange, type ExchangeConnection } from "./exchange.ts";
import type { WireStyle } from "./head.ts";
import { Fed, Parser, type ParserEvents } from "./parser.ts";
import type { Head } from "./request.ts";
import type { Drained, LateHeads } from "./stream.ts";

/** What is used of a socket of `Bun.listen`; Bun's types lack `fd` and the last two. */
export interface Socket {
  readonly remoteAddress: string;
  readonly remotePort: number;
  /** The system's number of it; -1 from the moment in which it is closed, or ended here. */
  readonly fd: number;
  /** Gives how many bytes the kernel took; negative: the socket is closed. */
  write(bytes: Uint8Array, from: number, length: number): number;
  /** What was written still leaves. */
  end(): unknown;
  terminate(): void;
  pause(): void;
  resume(): void;
}

/** What all connections of a server share. */
export interface ServerSide {
  readonly scheme: "http" | "https";
  readonly style: WireStyle;
  /** Largest head, bytes. */
  readonly headBytes: number;
  /** Has the application answer. */
  handle(exchange: Exchange): void;
  date(): string;
  /** Takes heads of streams whose first events may come at once; null if heads never wait. */
  readonly lateHeads: LateHeads | null;
  /** The connection is silent after an answer; until `stirred`. */
  idle(connection: Connection): void;
  stirred(connection: Connection): void;
  /** The connection has no request yet, or not all of its head; until `asked`. Once. */
  waits(connection: Connection): void;
  asked(connection: Connection): void;
  /** The client sent requests ahead: gives the connection its `turn`, once, in one of the next turns of the event loop. */
  queue(connection: Connection): void;
  /** Closes so many connections as soon as they are opened. */
  refuse(connections: number): void;
  /** Takes a line for the log. */
  warn(what: string): void;
  readonly unfinished: Unfinished;
}

/** Bytes from the socket that are worth being given back at once. */
const LARGE_BYTES = 65_536;
/** Requests of a connection that are taken apart ahead of their turn. What came behind them is kept as it came. */
const AHEAD_MOST = 100;
const UNSUPPORTED = "Unsupported upgrade request.";
const INVALID = "Invalid HTTP request received.";

export class Connection implements ExchangeConnection, ParserEvents, Unfinishing {
  readonly address: string;
  readonly port: number;
  readonly scheme: "http" | "https";
  readonly style: WireStyle;
  readonly lateHeads: LateHeads | null;
  readonly #socket: Socket;
  readonly #server: ServerSide;
  readonly #parser: Parser;
  /** The first is being answered. */
  readonly #exchanges: Exchange[] = [];
  /** Whether a part of the bytes that were fed last is a body's. */
  #kept = false;
  /** Came, and has not been taken apart: behind as many requests as are taken ahead. */
  #rest: Buffer | null = null;
  /** Whose body is coming. */
  #receiving: Exchange | null = null;
  /** Bytes that the kernel has not taken. */
  #backlog: Uint8Array[] = [];
  #backlogFrom = 0;
  #drained: Drained[] = [];
  /** Nothing more is read, and what was written leaves. */
  #closing = false;
  #lost = false;
  /** A request is to come within its time, however slowly its bytes do. */
  #waits = false;
  /** Who wants reading to pause: a body that nobody reads, requests sent ahead. */
  #pauses = 0;
  #ahead = false;
  /** Parts of bodies in the bytes that were fed last: after many, reading rests for a turn. */
  #parts = 0;
  /** Reads that brought a part of a request whose rest is still to come. */
  #unfinishedReads = 0;
  /** How it ends when its next request comes; null: it does not. */
  #fate: ConnectionEffect["next"] = null;

  constructor(socket: Socket, server: ServerSide) {
    this.#socket = socket;
    this.#server = server;
    this.address = socket.remoteAddress;
    this.port = socket.remotePort;
    this.scheme = server.scheme;
    this.style = server.style;
    this.lateHeads = server.lateHeads;
    this.#parser = new Parser(this, server.headBytes, server.style.asSent);
    this.#wait();
  }

  date(): string {
    return this.#server.date();
  }

  /** Bytes came. */
  data(bytes: Buffer): void {
    if (this.#closing) return;
    if (this.#fate !== null && this.#exchanges.length === 0) {
      this.#meetFate();
      return;
    }
    this.#server.stirred(this);
    this.#kept = false;
    this.#parts = 0;
    // Reading is paused: whatever comes nevertheless has its place behind that.
    if (this.#rest !== null) this.#rest = Buffer.concat([this.#rest, bytes]);
    else if (this.#feed(bytes)) this.#next();
    else if (!this.#closing) this.#wait();
    this.#account();
    if (this.#parts > PARTS_OF_A_TURN) this.#server.queue(this);
    this.#look();
  }

  /** Goes on with what was sent ahead. */
  turn(): void {
    this.#parts = 0;
    this.#look();
    if (this.#closing || this.#backlog.length > 0) return;
    const rest = this.#rest;
    if (this.#exchanges.length > 0 || rest === null) {
      this.#next();
      return;
    }
    this.#rest = null;
    if (this.#feed(rest)) this.#next();
    else if (!this.#closing) this.#server.idle(this);
    this.#look();
  }

  /** The socket takes bytes again. */
  drain(): void {
    while (this.#backlog.length > 0) {
      const first = this.#backlog[0]!;
      const wanted = first.length - this.#backlogFrom;
      const taken = this.#write(first, this.#backlogFrom, wanted);
      if (taken < 0) {
        this.#failed();
        return;
      }
      if (taken < wanted) {
        this.#backlogFrom += taken;
        return;
      }
      this.#backlog.shift();
      this.#backlogFrom = 0;
    }
    this.#tellDrained();
    if (this.#backlog.length > 0) return;
    if (this.#closing) this.#socket.end();
    else this.#goOn();
  }

  /** The client left, or the socket was closed here. */
  lost(): void {
    if (this.#lost) return;
    this.#lost = true;
    this.#closing = true;
    this.#forget();
    this.#parser.free();
    this.#backlog = [];
    this.#rest = null;
    for (const exchange of this.#exchanges.splice(0)) if (exchange.started) exchange.gone();
    this.#tellDrained();
  }

  /** Ends the connection when its answers have left: its time is over, or the server's. */
  shutDown(): void {
    const [first] = this.#exchanges;
    if (first === undefined) this.#close();
    else for (const exchange of this.#exchanges) exchange.keepAlive = false;
  }

  /** Ends the connection: it waited too long for a request. */
  expire(): void {
    this.#close();
  }

  giveWay(): void {
    if (!this.#receiving?.request.giveWay()) this.cut();
  }

  cut(): void {
    this.shut();
    this.#socket.terminate();
  }

  /** Nothing is sent beside it from here on. */
  shut(): void {
    this.#exchanges[0]?.shut();
  }

  onHead(head: Head): void {
    this.#asked();
    this.#receiving = new Exchange(this, head);
    this.#exchanges.push(this.#receiving);
  }

  onBody(part: Uint8Array): void {
    this.#parts++;
    if (this.#receiving!.request.came(part)) this.#kept = true;
  }

  onComplete(): boolean {
    this.#receiving!.request.ended();
    this.#receiving = null;
    return this.#exchanges.length >= AHEAD_MOST;
  }

  onUpgrade(): void {
    this.#server.warn(UNSUPPORTED);
  }

  aftermath({ next, refused }: ConnectionEffect): void {
    this.#fate = next;
    if (refused > 0) this.#server.refuse(refused);
  }

  /** For exchanges, as all below. */
  send(bytes: Uint8Array, length: number, then: Drained | null): number {
    if (this.#closing) return 0;
    let taken = 0;
    if (this.#backlog.length === 0) {
      taken = this.#write(bytes, 0, length);
      if (taken === length) return 0;
    }
    if (taken < 0) this.#failed();
    const left = taken < 0 ? length : length - taken;
    // A copy: `bytes` is where the next chunk is put together, and a Buffer's `slice` is a view.
    if (taken >= 0) this.#backlog.push(Buffer.from(bytes.subarray(taken, length)));
    if (then !== null && !this.#drained.includes(then)) this.#drained.push(then);
    return left;
  }

  /** As `Socket.write`. An error is the connection's alone: whoever writes has no answer left to give. */
  #write(bytes: Uint8Array, from: number, length: number): number {
    try {
      return this.#socket.write(bytes, from, length);
    } catch (error) {
      logUnexpected("a connection failed and is closed", error);
      return -1;
    }
  }

  get fd(): number {
    return this.#closing || this.#backlog.length > 0 || this.scheme === "https" ? -1 : this.#socket.fd;
  }

  finished(): void {
    const { keepAlive } = this.#exchanges.shift()!;
    if (this.#fate !== null && (this.#exchanges.length > 0 || this.#rest !== null)) {
      this.#meetFate();
      return;
    }
    if (!keepAlive) {
      this.#close();
      return;
    }
    this.#look();
    if (this.#exchanges.length > 0 || this.#rest !== null) this.#goOn();
    else this.#server.idle(this);
  }

  broken(): void {
    if (this.#backlog.length > 0) this.#socket.terminate();
    else this.#close();
  }

  pause(): void {
    if (this.#pauses++ === 0) this.#socket.pause();
  }

  resume(): void {
    if (--this.#pauses === 0 && !this.#lost) this.#socket.resume();
  }

  /** Takes them apart. Is there a request now? */
  #feed(bytes: Buffer): boolean {
    const fed = this.#parser.feed(bytes);
    if (fed === Fed.Enough && this.#parser.read < bytes.length) this.#rest = bytes.subarray(this.#parser.read);
    // The host would let hundreds of megabytes gather before it collects them.
    else if (!this.#kept && bytes.buffer.byteLength >= LARGE_BYTES) (bytes.buffer as ArrayBuffer).transfer(0);
    if (fed === Fed.Wrong) {
      this.#server.warn(INVALID);
      this.#refuse(this.style.badRequest?.(this.date()) ?? null);
    } else if (fed === Fed.TooLarge) this.#refuse(this.style.tooLarge);
    return this.#exchanges.length > 0;
  }

  /** Tells what is kept of a request that is not whole. */
  #account(): void {
    const unfinished = this.#receiving?.request.unfinishedBytes ?? this.#parser.unfinishedBytes;
    if (unfinished > 0 && !this.#closing) {
      this.#unfinishedReads++;
      this.#server.unfinished.holds(this, unfinished + this.#unfinishedReads * PART_BYTES);
    } else if (this.#unfinishedReads > 0) {
      this.#unfinishedReads = 0;
      this.#server.unfinished.leaves(this);
    }
  }

  /** Has the next request answered, unless one is being answered, or the last answer waits to be taken. */
  #next(): void {
    const next = this.#exchanges[0];
    if (next !== undefined && !next.started && !this.#closing && this.#backlog.length === 0) {
      next.started = true;
      this.#server.handle(next);
    }
    this.#look();
  }

  /** What was sent ahead has a turn of its own, however fast answers are: others are served in between. */
  #goOn(): void {
    if (this.#closing || this.#backlog.length > 0) return;
    const next = this.#exchanges[0];
    if (next === undefined ? this.#rest !== null : !next.started) this.#server.queue(this);
  }

  /** Reads on where nothing was sent ahead: the body of the one request that is left may not have come yet. */
  #look(): void {
    const ahead = this.#exchanges.length > 1 || this.#rest !== null || this.#parts > PARTS_OF_A_TURN;
    if (ahead === this.#ahead) return;
    this.#ahead = ahead;
    if (ahead) this.pause();
    else this.resume();
  }

  #refuse(answer: string | null): void {
    if (answer !== null) this.send(Buffer.from(answer), answer.length, null);
    this.#close();
  }

  #close(): void {
    if (this.#closing) return;
    this.#closing = true;
    this.#forget();
    this.shut();
    if (this.#backlog.length === 0) this.#socket.end();
    for (const exchange of this.#exchanges.splice(0)) if (exchange.started) exchange.gone();
  }

  /** The client left, and nobody would say so where reading is paused. Whoever writes is told when it is done writing. */
  #failed(): void {
    queueMicrotask(() => {
      this.cut();
      this.lost();
    });
  }

  /** The next request came, of which no answer is to come. */
  #meetFate(): void {
    if (this.#fate === "rst") this.cut();
    else this.#close();
  }

  #wait(): void {
    if (this.#waits || this.#closing) return;
    this.#waits = true;
    this.#server.waits(this);
  }

  #asked(): void {
    if (!this.#waits) return;
    this.#waits = false;
    this.#server.asked(this);
  }

  #forget(): void {
    this.#asked();
    this.#server.stirred(this);
    this.#server.unfinished.drops(this);
  }

  #tellDrained(): void {
    const told = this.#drained;
    this.#drained = [];
    for (const one of told) one.drained();
  }
}
