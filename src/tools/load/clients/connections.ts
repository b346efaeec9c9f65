/**
 * Who carries a request to the server? Sockets of `Bun.connect`, kept alive and used again, last used first, or one per
 * request. Not `fetch`: it runs 256 requests at most, and its events come later and cost more.
 */

import { edenGC } from "bun:jsc";
import type { Socket } from "bun";
import type { Clock } from "../../../base/clock.ts";
import { Inbox } from "./inbox.ts";

export interface ServerAddress {
  readonly hostname: string;
  readonly port: number;
  readonly tls: boolean;
  /** Certificates are not checked. */
  readonly insecure: boolean;
  /** Certificates to trust, as PEM; null: the system's. */
  readonly ca: string | null;
}

/** Whoever waits for a response. Times come from the clock that `Connections` was given. */
export interface ResponseReceiver {
  /** The next call hands the request's first byte to the kernel. */
  sent(nowUs: number): void;
  data(bytes: Uint8Array, nowUs: number): void;
  /** The response is complete; whether the connection may carry another request. */
  readonly over: boolean;
  readonly keepAlive: boolean;
  /** Whether any byte of the response has come. */
  readonly begun: boolean;
  /** The connection is gone before `over`; or there was none (`unreachable`). */
  lost(nowUs: number, why: string): void;
  unreachable(nowUs: number, why: string): void;
  /** The exchange is over, and its connection is free again: now the next request may be sent. */
  settle(): void;
}

/** A request under way. */
export interface Sending {
  /** Nobody wants the rest: the connection is closed, the receiver hears nothing more. */
  cut(): void;
  pause(): void;
  resume(): void;
}

/**
 * Where one connection after the other is opened, some are opened ahead, when nothing comes: opening one takes as long as
 * eight tokens do to come. So many wait at most; openings this far apart are not one after the other.
 */
const SPARES_MOST = 8;
const ROW_US = 100_000;

class Connection implements Sending {
  socket: Socket<Connection> | null = null;
  /** Null: it carries nothing, or nobody wants the rest. */
  receiver: ResponseReceiver | null;
  /** What the kernel has not taken yet. */
  rest: Uint8Array | null = null;
  request: Uint8Array;
  reused = false;
  /** Opened ahead, and not used yet. */
  spare = false;
  ready = false;
  dropped = false;
  paused = false;
  /** After a stale connection the request goes on over another one. */
  next: Connection | null = null;

  constructor(request: Uint8Array, receiver: ResponseReceiver | null) {
    this.request = request;
    this.receiver = receiver;
  }

  cut(): void {
    if (this.next !== null) {
      this.next.cut();
      return;
    }
    this.receiver = null;
    this.dropped = true;
    this.socket?.terminate();
  }

  pause(): void {
    if (this.next !== null) this.next.pause();
    else if (!this.dropped) this.socket?.pause();
    this.paused = true;
  }

  resume(): void {
    if (this.next !== null) this.next.resume();
    else if (!this.dropped) this.socket?.resume();
    this.paused = false;
  }

  write(): void {
    const bytes = this.rest!;
    const written = this.socket!.write(bytes);
    if (written < 0) return;
    this.rest = written < bytes.length ? bytes.subarray(written) : null;
  }
}

export class Connections {
  /** Connections opened, and requests sent again because the server had closed an idle connection. */
  opened = 0;
  resent = 0;
  readonly #target: ServerAddress;
  readonly #pooled: boolean;
  readonly #clock: Clock;
  readonly #tls: false | { readonly rejectUnauthorized: boolean; readonly serverName: string; readonly ca?: string };
  readonly #idle: Connection[] = [];
  /** Connections that count against `SPARES_MOST`: being opened or idle, and never used. */
  #spares = 0;
  #sparesMost = 0;
  #neededUs = Number.NEGATIVE_INFINITY;
  readonly #inbox: Inbox<Connection>;

  constructor(target: ServerAddress, pooled: boolean, clock: Clock) {
    this.#target = target;
    this.#pooled = pooled;
    this.#clock = clock;
    this.#inbox = new Inbox(clock, (connection, bytes, nowUs) => this.#read(connection, bytes, nowUs), edenGC);
    const ca = target.ca === null ? {} : { ca: target.ca };
    this.#tls = target.tls && { rejectUnauthorized: !target.insecure, serverName: target.hostname, ...ca };
  }

  /** `more` requests may follow before this one's answer has ended. */
  send(request: Uint8Array, receiver: ResponseReceiver, more = 0): Sending {
    const idle = this.#idle.pop();
    this.#sparesMost = this.#pooled ? Math.min(more, SPARES_MOST) : 0;
    if (idle === undefined || idle.spare) this.#needed();
    if (idle === undefined) return this.#open(request, receiver);
    if (idle.spare) this.#spares--;
    // A connection has one life as a `Sending` per request: whoever holds an old one must not cut the new one.
    const connection = new Connection(request, receiver);
    connection.socket = idle.socket!;
    connection.socket.data = connection;
    connection.reused = true;
    connection.ready = true;
    this.#transmit(connection);
    return connection;
  }

  /** `work` can wait until nothing comes (Inbox). */
  whenQuiet(work: () => boolean): void {
    this.#inbox.whenQuiet(work);
  }

  close(): void {
    this.#sparesMost = 0;
    for (const { socket } of this.#idle.splice(0)) socket?.end();
  }

  #needed(): void {
    const nowUs = this.#clock.now();
    if (nowUs - this.#neededUs < ROW_US && this.#sparesMost > 0) this.#inbox.whenQuiet(this.#openSpare);
    this.#neededUs = nowUs;
  }

  readonly #openSpare = (): boolean => {
    if (this.#spares >= this.#sparesMost) return false;
    this.#spares++;
    this.#open(new Uint8Array(), null).spare = true;
    return this.#spares < this.#sparesMost;
  };

  #open(request: Uint8Array, receiver: ResponseReceiver | null): Connection {
    const connection = new Connection(request, receiver);
    this.opened++;
    const { hostname, port } = this.#target;
    const tls = this.#tls === false ? {} : { tls: this.#tls };
    Bun.connect({ hostname, port, ...tls, data: connection, socket: this.#handlers }).catch((failure: unknown) =>
      this.#unreachable(connection, failure),
    );
    return connection;
  }

  #transmit(connection: Connection): void {
    connection.rest = connection.request;
    this.#inbox.sent();
    connection.receiver!.sent(this.#clock.now());
    connection.write();
    if (connection.paused) connection.socket!.pause();
  }

  #opened(connection: Connection): void {
    if (connection.ready) return;
    connection.ready = true;
    if (connection.dropped) connection.socket!.terminate();
    else if (connection.receiver !== null) this.#transmit(connection);
    else if (this.#sparesMost > 0) this.#idle.push(connection);
    else connection.socket!.end();
  }

  /** Drops a connection that carries nothing any more. */
  #forget(connection: Connection): void {
    if (connection.dropped) return;
    connection.dropped = true;
    if (connection.spare) this.#spares--;
    const idle = connection.receiver === null ? this.#idle.indexOf(connection) : -1;
    if (idle >= 0) this.#idle.splice(idle, 1);
  }

  #unreachable(connection: Connection, failure: unknown): void {
    const { receiver } = connection;
    this.#forget(connection);
    if (receiver === null) return;
    connection.receiver = null;
    const { code, message } = failure as { code?: string; message?: string };
    receiver.unreachable(this.#clock.now(), code ?? message ?? String(failure));
    receiver.settle();
  }

  #read(connection: Connection, bytes: Uint8Array, nowUs: number): void {
    const { receiver } = connection;
    // Bytes that belong to no request: the connection is of no use.
    if (receiver === null) {
      this.#forget(connection);
      connection.cut();
      return;
    }
    receiver.data(bytes, nowUs);
    if (!receiver.over) return;
    connection.receiver = null;
    if (this.#pooled && receiver.keepAlive && connection.rest === null && !connection.dropped) {
      if (connection.paused) connection.resume();
      this.#idle.push(connection);
    } else {
      connection.dropped = true;
      connection.socket?.end();
    }
    receiver.settle();
  }

  #closed(connection: Connection, why: string): void {
    // Before anything is read: whoever has read an answer to its end sends the next request, and not over this one.
    this.#forget(connection);
    this.#inbox.readAll();
    const { receiver } = connection;
    connection.receiver = null;
    if (receiver === null || receiver.over) return;
    // The server had closed it while it was idle, and the request crossed that on its way.
    if (connection.reused && !receiver.begun) {
      this.resent++;
      connection.next = this.#open(connection.request, receiver);
      return;
    }
    if (connection.ready) receiver.lost(this.#clock.now(), why);
    else receiver.unreachable(this.#clock.now(), why);
    receiver.settle();
  }

  readonly #handlers = {
    binaryType: "uint8array" as const,
    open: (socket: Socket<Connection>): void => {
      socket.data.socket = socket;
      socket.setNoDelay(true);
      if (this.#tls === false) this.#opened(socket.data);
    },
    handshake: (socket: Socket<Connection>, ok: boolean, why: Error | null): void => {
      if (!ok || (why !== null && !this.#target.insecure)) {
        this.#unreachable(socket.data, why ?? { code: "TLS handshake failed" });
        socket.terminate();
      } else this.#opened(socket.data);
    },
    data: (socket: Socket<Connection>, bytes: Uint8Array): void => this.#inbox.add(socket.data, bytes),
    drain: (socket: Socket<Connection>): void => {
      if (socket.data.rest !== null && !socket.data.dropped) socket.data.write();
    },
    end: (socket: Socket<Connection>): void => {
      socket.end();
    },
    close: (socket: Socket<Connection>, failure?: unknown): void =>
      this.#closed(socket.data, (failure as { code?: string } | undefined)?.code ?? "the server closed the connection"),
    error: (_: Socket<Connection>, __: Error): void => {},
    connectError: (socket: Socket<Connection>, failure: Error): void => this.#unreachable(socket.data, failure),
  };
}
