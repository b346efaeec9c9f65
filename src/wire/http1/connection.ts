/**
 * One connection of HTTP/1: reads requests, sends their answers in order, refuses bytes that are not HTTP, and closes. Behaves
 * like uvicorn 0.54 (`protocols/http/httptools_impl.py`).
 */

import { logUnexpected } from "../../base/unexpected.ts";
import type { ConnectionEffect } from "../../faults/plan/types.ts";
import { PART_BYTES, PARTS_OF_A_TURN, type UnfinishedOwner, type UnfinishedRequests } from "../http/unfinished.ts";
import { Exchange, type ExchangeConnection } from "./exchange.ts";
import type { WireStyle } from "./head.ts";
import { FeedResult, Parser, type ParserEvents } from "./parser.ts";
import type { Head } from "./request.ts";
import type { DrainListener, LateHeads } from "./stream.ts";

/** The used part of a socket of `Bun.listen`. Bun's types lack `fd`, `pause` and `resume`. */
export interface Socket {
  readonly remoteAddress: string;
  readonly remotePort: number;
  /** The file descriptor; -1 once the socket is closed or was ended here. */
  readonly fd: number;
  /** Returns how many bytes the kernel accepted. Negative if the socket is closed. */
  write(bytes: Uint8Array, from: number, length: number): number;
  /** Closes the socket after the bytes written so far have left. */
  end(): unknown;
  terminate(): void;
  pause(): void;
  resume(): void;
}

/** The server, as a connection sees it. All connections of a server share it. */
export interface ServerSide {
  readonly scheme: "http" | "https";
  readonly style: WireStyle;
  /** Largest head of a request, in bytes. */
  readonly headBytes: number;
  /** Calls the application for a request. */
  handle(exchange: Exchange): void;
  date(): string;
  /** Holds heads of streams back for a first event that may come at once; null if heads leave at once. */
  readonly lateHeads: LateHeads | null;
  /** Starts the keep-alive time limit, after an answer. `stirred` stops it. */
  idle(connection: Connection): void;
  stirred(connection: Connection): void;
  /** Starts the time limit of a request head, when the connection is new or a part of a head has arrived. `asked` stops it. */
  waits(connection: Connection): void;
  asked(connection: Connection): void;
  /** Schedules one call of `turn` in one of the next turns of the event loop, because the client sent requests ahead. */
  queue(connection: Connection): void;
  /** Closes that many of the next connections as soon as they are opened. */
  refuse(connections: number): void;
  /** Writes a warning to the log. */
  warn(what: string): void;
  readonly unfinished: UnfinishedRequests;
}

/** Size from which the memory of bytes from the socket is freed at once. */
const LARGE_BYTES = 65_536;
/** Requests of a connection that are parsed ahead of their turn. Bytes after them stay unparsed. */
const AHEAD_MOST = 100;
const UNSUPPORTED = "Unsupported upgrade request.";
const INVALID = "Invalid HTTP request received.";

export class Connection implements ExchangeConnection, ParserEvents, UnfinishedOwner {
  readonly address: string;
  readonly port: number;
  readonly scheme: "http" | "https";
  readonly style: WireStyle;
  readonly lateHeads: LateHeads | null;
  readonly #socket: Socket;
  readonly #server: ServerSide;
  readonly #parser: Parser;
  /** Requests without a complete answer. The first is being answered. */
  readonly #exchanges: Exchange[] = [];
  /** True if a request keeps a part of the last bytes, as its body. */
  #isKept = false;
  /** Unparsed bytes after `AHEAD_MOST` requests; null if there are none. */
  #rest: Buffer | null = null;
  /** The request whose body is arriving. */
  #receiving: Exchange | null = null;
  /** Bytes that the kernel has not accepted. `#backlogFrom`: offset in the first part. */
  #backlog: Uint8Array[] = [];
  #backlogFrom = 0;
  #drained: DrainListener[] = [];
  /** True once nothing more is read. Bytes written before still leave. */
  #closing = false;
  #lost = false;
  /** True while the time limit of a request head runs. */
  #waits = false;
  /** Number of reasons to pause reading: a body that no handler reads, requests sent ahead. */
  #pauses = 0;
  #ahead = false;
  /** Parts of bodies in the bytes parsed last. After many, reading pauses until the next turn. */
  #parts = 0;
  /** Reads that brought a part of the unfinished request. */
  #unfinishedReads = 0;
  /** End that a fault plan gives to this connection when its next request arrives. Null if there is none. */
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
    this.#startHeadLimit();
  }

  date(): string {
    return this.#server.date();
  }

  /** Takes bytes from the socket. */
  data(bytes: Buffer): void {
    if (this.#closing) return;
    if (this.#fate !== null && this.#exchanges.length === 0) {
      this.#endAsPlanned();
      return;
    }
    this.#server.stirred(this);
    this.#isKept = false;
    this.#parts = 0;
    // Bytes may still arrive while reading is paused. They belong after the unparsed ones.
    if (this.#rest !== null) this.#rest = Buffer.concat([this.#rest, bytes]);
    else if (this.#feed(bytes)) this.#next();
    else if (!this.#closing) this.#startHeadLimit();
    this.#reportUnfinished();
    if (this.#parts > PARTS_OF_A_TURN) this.#server.queue(this);
    this.#pauseIfAhead();
  }

  /** Continues with the requests that were sent ahead. */
  turn(): void {
    this.#parts = 0;
    this.#pauseIfAhead();
    if (this.#closing || this.#backlog.length > 0) return;
    const rest = this.#rest;
    if (this.#exchanges.length > 0 || rest === null) {
      this.#next();
      return;
    }
    this.#rest = null;
    if (this.#feed(rest)) this.#next();
    else if (!this.#closing) this.#server.idle(this);
    this.#pauseIfAhead();
  }

  /** Sends the backlog, because the socket accepts bytes again. */
  drain(): void {
    while (this.#backlog.length > 0) {
      const first = this.#backlog[0]!;
      const wanted = first.length - this.#backlogFrom;
      const taken = this.#write(first, this.#backlogFrom, wanted);
      if (taken < 0) {
        this.#endAfterFailedWrite();
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
    else this.#scheduleNext();
  }

  /** Releases everything after the client left or the socket was closed here. */
  lost(): void {
    if (this.#lost) return;
    this.#lost = true;
    this.#closing = true;
    this.#stopLimits();
    this.#parser.free();
    this.#backlog = [];
    this.#rest = null;
    for (const exchange of this.#exchanges.splice(0)) if (exchange.started) exchange.gone();
    this.#tellDrained();
  }

  /** Ends the connection after the answers under way, because the server stops or the connection must end. */
  shutDown(): void {
    const [first] = this.#exchanges;
    if (first === undefined) this.#close();
    else for (const exchange of this.#exchanges) exchange.keepAlive = false;
  }

  /** Ends the connection, because it waited too long for a request. */
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

  /** Sends what streams still hold back. After this call no lane sends on the socket. */
  shut(): void {
    this.#exchanges[0]?.shut();
  }

  onHead(head: Head): void {
    this.#stopHeadLimit();
    this.#receiving = new Exchange(this, head);
    this.#exchanges.push(this.#receiving);
  }

  onBody(part: Uint8Array): void {
    this.#parts++;
    if (this.#receiving!.request.came(part)) this.#isKept = true;
  }

  onComplete(): boolean {
    this.#receiving!.request.ended();
    this.#receiving = null;
    return this.#exchanges.length >= AHEAD_MOST;
  }

  onUpgrade(): void {
    this.#server.warn(UNSUPPORTED);
  }

  applyEffect({ next, refused }: ConnectionEffect): void {
    this.#fate = next;
    if (refused > 0) this.#server.refuse(refused);
  }

  /** Called by exchanges, as are all methods below. */
  send(bytes: Uint8Array, length: number, then: DrainListener | null): number {
    if (this.#closing) return 0;
    let taken = 0;
    if (this.#backlog.length === 0) {
      taken = this.#write(bytes, 0, length);
      if (taken === length) return 0;
    }
    if (taken < 0) this.#endAfterFailedWrite();
    const left = taken < 0 ? length : length - taken;
    // Copied, because the caller reuses `bytes`. `slice` would not copy: a Buffer's `slice` is a view.
    if (taken >= 0) this.#backlog.push(Buffer.from(bytes.subarray(taken, length)));
    if (then !== null && !this.#drained.includes(then)) this.#drained.push(then);
    return left;
  }

  /** Like `Socket.write`. An error ends this connection only. */
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
      this.#endAsPlanned();
      return;
    }
    if (!keepAlive) {
      this.#close();
      return;
    }
    this.#pauseIfAhead();
    if (this.#exchanges.length > 0 || this.#rest !== null) this.#scheduleNext();
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

  /** Parses the bytes. Returns true if there is a request to answer. */
  #feed(bytes: Buffer): boolean {
    const fed = this.#parser.feed(bytes);
    if (fed === FeedResult.Enough && this.#parser.read < bytes.length) this.#rest = bytes.subarray(this.#parser.read);
    // The runtime would let hundreds of megabytes pile up before it collects them.
    else if (!this.#isKept && bytes.buffer.byteLength >= LARGE_BYTES) (bytes.buffer as ArrayBuffer).transfer(0);
    if (fed === FeedResult.Wrong) {
      this.#server.warn(INVALID);
      this.#refuse(this.style.badRequest?.(this.date()) ?? null);
    } else if (fed === FeedResult.TooLarge) this.#refuse(this.style.tooLarge);
    return this.#exchanges.length > 0;
  }

  /** Reports how many bytes are kept of an unfinished request. */
  #reportUnfinished(): void {
    const unfinished = this.#receiving?.request.unfinishedBytes ?? this.#parser.unfinishedBytes;
    if (unfinished > 0 && !this.#closing) {
      this.#unfinishedReads++;
      this.#server.unfinished.holds(this, unfinished + this.#unfinishedReads * PART_BYTES);
    } else if (this.#unfinishedReads > 0) {
      this.#unfinishedReads = 0;
      this.#server.unfinished.leaves(this);
    }
  }

  /** Starts the next answer, unless an answer is under way or bytes of the last one are still waiting to be accepted. */
  #next(): void {
    const next = this.#exchanges[0];
    if (next !== undefined && !next.started && !this.#closing && this.#backlog.length === 0) {
      next.started = true;
      this.#server.handle(next);
    }
    this.#pauseIfAhead();
  }

  /** Schedules a turn for a request that was sent ahead, so that other connections are served in between. */
  #scheduleNext(): void {
    if (this.#closing || this.#backlog.length > 0) return;
    const next = this.#exchanges[0];
    if (next === undefined ? this.#rest !== null : !next.started) this.#server.queue(this);
  }

  /** Pauses reading while there are requests sent ahead. One request alone may still need its body. */
  #pauseIfAhead(): void {
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
    this.#stopLimits();
    this.shut();
    if (this.#backlog.length === 0) this.#socket.end();
    for (const exchange of this.#exchanges.splice(0)) if (exchange.started) exchange.gone();
  }

  /** Ends the connection after a failed write. A microtask does it, so that the writing code finishes first. */
  #endAfterFailedWrite(): void {
    queueMicrotask(() => {
      this.cut();
      this.lost();
    });
  }

  /** Ends the connection as the fault plan says, instead of answering the request that arrived. */
  #endAsPlanned(): void {
    if (this.#fate === "rst") this.cut();
    else this.#close();
  }

  #startHeadLimit(): void {
    if (this.#waits || this.#closing) return;
    this.#waits = true;
    this.#server.waits(this);
  }

  #stopHeadLimit(): void {
    if (!this.#waits) return;
    this.#waits = false;
    this.#server.asked(this);
  }

  #stopLimits(): void {
    this.#stopHeadLimit();
    this.#server.stirred(this);
    this.#server.unfinished.drops(this);
  }

  #tellDrained(): void {
    const listeners = this.#drained;
    this.#drained = [];
    for (const listener of listeners) listener.drained();
  }
}
