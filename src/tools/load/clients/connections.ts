/**
 * Opens and reuses the connections to the server. Uses sockets of `Bun.connect`, which are kept alive and reused, the last used
 * first, or one per request. `fetch` is not used, because it runs at most 256 requests at once, and its events come later and cost
 * more.
 */

import { edenGC } from "bun:jsc";
import type { Socket } from "bun";
import type { Clock } from "../../../base/clock.ts";
import { Inbox } from "./inbox.ts";

export interface ServerAddress {
  readonly hostname: string;
  readonly port: number;
  readonly tls: boolean;
  /** True if certificates are not checked. */
  readonly insecure: boolean;
  /** Certificates to trust, as PEM. Null for the system's. */
  readonly ca: string | null;
}

/** Receives the response to one request. Times come from the clock of `Connections`. */
export interface ResponseReceiver {
  /** Called directly before the first byte of the request is written. */
  sent(nowUs: number): void;
  data(bytes: Uint8Array, nowUs: number): void;
  /** True if the response is complete. `keepAlive`: true if the connection may carry another request. */
  readonly over: boolean;
  readonly keepAlive: boolean;
  /** True if any byte of the response came. */
  readonly begun: boolean;
  /** Called if the connection was lost before `over`, or could not be opened (`unreachable`). */
  lost(nowUs: number, why: string): void;
  unreachable(nowUs: number, why: string): void;
  /** Called last, when the connection is free again and the next request may be sent. */
  settle(): void;
}

/** A request in progress. */
export interface SendHandle {
  /** Closes the connection. The receiver gets no further calls. */
  cut(): void;
  pause(): void;
  resume(): void;
}

/**
 * If connections are needed one after another, some are opened ahead of time while no data comes, because opening one takes as
 * long as receiving eight tokens. At most `SPARES_MOST` are ready. Two openings count as "one after another" if they are at
 * most `ROW_US` apart.
 */
const SPARES_MOST = 8;
const ROW_US = 100_000;

class Connection implements SendHandle {
  socket: Socket<Connection> | null = null;
  /** Bytes that the kernel has not accepted yet. */
  rest: Uint8Array | null = null;
  reused = false;
  /** True if the connection was opened ahead of time and not used yet. */
  spare = false;
  ready = false;
  dropped = false;
  paused = false;
  /** The connection that carries the request now, after an idle connection turned out to be closed. */
  next: Connection | null = null;

  constructor(
    public request: Uint8Array,
    /** Receiver of the current response. Null if the connection is idle, or if its request was cut. */
    public receiver: ResponseReceiver | null,
  ) {}

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
  /** Number of opened connections, and of requests that were sent again because the server had closed an idle connection. */
  opened = 0;
  resent = 0;
  readonly #tls: false | { readonly rejectUnauthorized: boolean; readonly serverName: string; readonly ca?: string };
  readonly #idle: Connection[] = [];
  /** Number of connections that count against `SPARES_MOST`: opened ahead of time, and never used. */
  #spares = 0;
  #sparesMost = 0;
  #neededUs = Number.NEGATIVE_INFINITY;
  readonly #inbox: Inbox<Connection>;

  constructor(
    private readonly target: ServerAddress,
    private readonly pooled: boolean,
    private readonly clock: Clock,
  ) {
    this.#inbox = new Inbox(clock, (connection, bytes, nowUs) => this.#read(connection, bytes, nowUs), edenGC);
    const ca = target.ca === null ? {} : { ca: target.ca };
    this.#tls = target.tls && { rejectUnauthorized: !target.insecure, serverName: target.hostname, ...ca };
  }

  /** Sends a request. `more`: number of requests that may follow before this answer has ended. */
  send(request: Uint8Array, receiver: ResponseReceiver, more = 0): SendHandle {
    const idle = this.#idle.pop();
    this.#sparesMost = this.pooled ? Math.min(more, SPARES_MOST) : 0;
    if (idle === undefined || idle.spare) this.#needed();
    if (idle === undefined) return this.#open(request, receiver);
    if (idle.spare) this.#spares--;
    // Each request gets its own `Connection` object, so that a caller that still has an old one cannot cut the new request.
    const connection = new Connection(request, receiver);
    connection.socket = idle.socket!;
    connection.socket.data = connection;
    connection.reused = true;
    connection.ready = true;
    this.#transmit(connection);
    return connection;
  }

  /** Schedules low-priority work for moments without incoming data (see `Inbox`). */
  whenQuiet(work: () => boolean): void {
    this.#inbox.whenQuiet(work);
  }

  close(): void {
    this.#sparesMost = 0;
    for (const { socket } of this.#idle.splice(0)) socket?.end();
  }

  #needed(): void {
    const nowUs = this.clock.now();
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
    const { hostname, port } = this.target;
    const tls = this.#tls === false ? {} : { tls: this.#tls };
    Bun.connect({ hostname, port, ...tls, data: connection, socket: this.#handlers }).catch((failure: unknown) =>
      this.#unreachable(connection, failure),
    );
    return connection;
  }

  #transmit(connection: Connection): void {
    connection.rest = connection.request;
    this.#inbox.sent();
    connection.receiver!.sent(this.clock.now());
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

  /** Marks a connection as dropped and removes it from the idle ones. */
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
    receiver.unreachable(this.clock.now(), code ?? message ?? String(failure));
    receiver.settle();
  }

  #read(connection: Connection, bytes: Uint8Array, nowUs: number): void {
    const { receiver } = connection;
    // These bytes do not belong to any request, so the connection cannot be used.
    if (receiver === null) {
      this.#forget(connection);
      connection.cut();
      return;
    }
    receiver.data(bytes, nowUs);
    if (!receiver.over) return;
    connection.receiver = null;
    if (this.pooled && receiver.keepAlive && connection.rest === null && !connection.dropped) {
      if (connection.paused) connection.resume();
      this.#idle.push(connection);
    } else {
      connection.dropped = true;
      connection.socket?.end();
    }
    receiver.settle();
  }

  #closed(connection: Connection, why: string): void {
    // Forget the connection before reading, because a completed answer makes its receiver send the next request.
    this.#forget(connection);
    this.#inbox.readAll();
    const { receiver } = connection;
    connection.receiver = null;
    if (receiver === null || receiver.over) return;
    // The server closed the idle connection while the request was on its way, so send the request again.
    if (connection.reused && !receiver.begun) {
      this.resent++;
      connection.next = this.#open(connection.request, receiver);
      return;
    }
    if (connection.ready) receiver.lost(this.clock.now(), why);
    else receiver.unreachable(this.clock.now(), why);
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
      if (!ok || (why !== null && !this.target.insecure)) {
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
