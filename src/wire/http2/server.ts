/**
 * Listens for HTTP/2 connections, in plain text with prior knowledge or with TLS and ALPN. Enforces their time limits and ends
 * them.
 */

import type { Clock } from "../../base/clock.ts";
import { giveConnection, takeConnection } from "../../base/descriptors.ts";
import { logUnexpected } from "../../base/unexpected.ts";
import { deadlines, type TimedItem } from "../http/deadlines.ts";
import { OpenCount } from "../http/open-count.ts";
import { TurnQueue } from "../http/turn-queue.ts";
import type { TlsFiles } from "../tls/certificates.ts";
import { type Http2Application, Http2Connection } from "./connection.ts";
import type { ConnectionSide } from "./connection-handle.ts";
import { Http2Code } from "./frames.ts";
import { type KeepAlive, PingRules } from "./pings.ts";

export interface Http2Options {
  readonly hostname: string;
  readonly port: number;
  readonly tls: TlsFiles | null;
  /** True if several processes listen on the same port. */
  readonly reusePort: boolean;
  readonly keepAlive: KeepAlive;
  readonly clock: Pick<Clock, "now" | "at" | "turn">;
  /** As in `ListenOptions` of HTTP/1. */
  readonly catchUp?: (() => void) | undefined;
  /** Called with the number of bytes that became garbage. */
  readonly consumed?: ((bytes: number) => void) | undefined;
  /** Called after each 512 streams that open, on any connections, while at least as many are open. */
  readonly crowded?: (() => void) | undefined;
}

type Socket = Bun.Socket<Client>;
/**
 * Garbage reported per lost stream, in bytes. A request takes four times as much, but a collection per four megabytes of it would
 * take longer than the resets that caused it.
 */
const LOST_STREAM_BYTES = 1024;
/** Time limit for the client's preface and first SETTINGS frame. */
const PREFACE_S = 120;
const NO_SETTINGS = `no SETTINGS within ${PREFACE_S} s`;
/** ALPN names in wire format: length, then "h2". Bun accepts bytes, although its types do not say so. */
const ALPN = Uint8Array.from([2, 104, 50]);

/** The server. Its constructor throws like `Bun.listen` if the port is in use. */
export class Http2Server {
  readonly hostname: string;
  readonly port: number;
  readonly clients = new Set<Client>();
  readonly options: Http2Options;
  readonly application: Http2Application;
  readonly silent: Watch;
  readonly unanswered: Watch;
  readonly idle: Watch;
  readonly aged: Watch;
  readonly graced: Watch;
  readonly unsettled: Watch;
  readonly openStreams: OpenCount;
  /** Connections that have more frames to read, or streams to end, than fit into one turn of the event loop. */
  readonly turns: TurnQueue<Client>;
  /** Number of next connections to close as soon as they are opened. */
  refused = 0;
  readonly #listener: Bun.TCPSocketListener<Client>;
  #stopped: PromiseWithResolvers<void> | null = null;

  constructor(application: Http2Application, options: Http2Options) {
    const { hostname, port, tls, reusePort, keepAlive, clock, catchUp = () => {} } = options;
    this.application = application;
    this.options = options;
    const timer = { nowUs: () => clock.now(), after: (us: number, act: () => void) => clock.at(clock.now() + us, act) };
    const watch = (ms: number) => deadlines(ms / 1000, timer);
    this.turns = new TurnQueue((run) => clock.turn(run));
    this.silent = watch(keepAlive.timeMs);
    this.unanswered = watch(keepAlive.timeoutMs);
    this.idle = watch(keepAlive.idleMs);
    this.aged = watch(keepAlive.ageMs);
    this.graced = watch(keepAlive.graceMs);
    this.unsettled = watch(PREFACE_S * 1000);
    this.openStreams = new OpenCount(options.crowded);
    // The types lack `reusePort`, which `Bun.listen` accepts.
    const listening: Bun.TCPSocketListenOptions<Client> & { reusePort: boolean } = {
      hostname,
      port,
      reusePort,
      ...(tls ? { tls: { ...tls, ALPNProtocols: ALPN } } : {}),
      socket: {
        open: (socket) => {
          catchUp();
          if (this.refused > 0) {
            this.refused--;
            socket.end();
            return;
          }
          if (!takeConnection()) {
            socket.terminate();
            return;
          }
          socket.data = new Client(socket, this);
          this.clients.add(socket.data);
        },
        data: (socket, bytes) => {
          catchUp();
          socket.data?.connection.data(bytes);
        },
        drain: (socket) => socket.data?.connection.drain(),
        close: (socket) => this.#closed(socket.data),
        // A failure in our code ends this connection only.
        error: (socket, why) => {
          logUnexpected("a connection failed and is closed", why);
          socket.terminate();
        },
      },
    };
    this.#listener = Bun.listen(listening);
    this.hostname = this.#listener.hostname;
    this.port = this.#listener.port;
  }

  /** Stops listening. Connections end after their streams, or at once if `cut`. Resolves when none is left. */
  stop(cut = false): Promise<void> {
    this.#listener.stop(cut);
    this.#stopped ??= Promise.withResolvers<void>();
    for (const client of [...this.clients]) {
      if (cut) client.cut();
      else client.connection.retire();
    }
    if (this.clients.size === 0) this.#stopped.resolve();
    return this.#stopped.promise;
  }

  #closed(client: Client | undefined): void {
    if (client === undefined) return;
    giveConnection();
    this.clients.delete(client);
    try {
      client.lost();
    } finally {
      if (this.clients.size === 0) this.#stopped?.resolve();
    }
  }
}

type Watch = ReturnType<typeof deadlines>;

/** A connection with its socket and its time limits. */
class Client implements ConnectionSide {
  readonly connection: Http2Connection;
  readonly application: Http2Application;
  readonly pings: PingRules;
  readonly openStreams: OpenCount;
  readonly address: string;
  readonly port: number;
  readonly #socket: Socket;
  readonly #server: Http2Server;
  readonly #watched: readonly (readonly [Watch, TimedItem])[];
  /** Cuts the connection if the answer to a ping is late, unless other bytes arrived meanwhile. */
  readonly #answer: TimedItem = {
    expire: () => {
      if (this.#heard) this.#watchAnew(this.#server.unanswered, this.#answer);
      else this.cut();
    },
  };
  readonly #idle: TimedItem = { expire: () => this.connection.retire() };
  /** True until our ping is acknowledged. */
  #pinged = false;
  /** True if bytes arrived since the last check of silence, or since the last ping. */
  #heard = false;

  constructor(socket: Socket, server: Http2Server) {
    const { keepAlive, clock } = server.options;
    this.#socket = socket;
    this.#server = server;
    this.address = socket.remoteAddress;
    // Bun's types lack `remotePort`.
    this.port = (socket as unknown as { remotePort: number }).remotePort;
    this.application = server.application;
    this.openStreams = server.openStreams;
    this.pings = new PingRules(keepAlive, () => clock.now());
    this.connection = new Http2Connection(this);
    const grace: TimedItem = { expire: () => this.cut() };
    const age: TimedItem = {
      expire: () => {
        this.connection.retire();
        server.graced?.watch(grace);
      },
    };
    this.#watched = [
      [server.silent, this.#silence],
      [server.unanswered, this.#answer],
      [server.idle, this.#idle],
      [server.aged, age],
      [server.graced, grace],
      [server.unsettled, { expire: () => this.connection.refuse(Http2Code.Protocol, NO_SETTINGS) }],
    ];
    server.silent?.watch(this.#silence);
    server.idle?.watch(this.#idle);
    server.aged?.watch(age);
    server.unsettled?.watch(this.#watched.at(-1)![1]);
  }

  write(bytes: Uint8Array, from: number, length: number): number {
    try {
      return this.#socket.write(bytes, from, length);
    } catch (error) {
      logUnexpected("a connection failed and is closed", error);
      return -1;
    }
  }

  decoded(bytes: number): void {
    this.#server.options.consumed?.(bytes);
  }

  streamLost(): void {
    this.#server.options.consumed?.(LOST_STREAM_BYTES);
  }

  later(run: () => void): void {
    this.#server.options.clock.turn(() => {
      try {
        run();
      } catch (error) {
        logUnexpected("a connection failed and is closed", error);
        this.cut();
      }
    });
  }

  failed(): void {
    // In a microtask, so that the writing code finishes first.
    queueMicrotask(() => this.cut());
  }

  /** Only sets a flag, because it runs for each read. The time limits check the flag when they end. */
  heard(): void {
    this.#heard = true;
  }

  acknowledged(): void {
    if (!this.#pinged) return;
    this.#pinged = false;
    const { silent, unanswered } = this.#server;
    unanswered?.forget(this.#answer);
    this.#watchAnew(silent, this.#silence);
  }

  #watchAnew(watch: Watch, item: TimedItem): void {
    this.#heard = false;
    watch?.watch(item);
  }

  settled(): void {
    this.#server.unsettled?.forget(this.#watched.at(-1)![1]);
  }

  rests(idle: boolean): void {
    if (idle) this.#server.idle?.watch(this.#idle);
    else this.#server.idle?.forget(this.#idle);
  }

  refuseNext(connections: number): void {
    this.#server.refused += connections;
  }

  done(): void {
    this.#socket.end();
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  queue(): void {
    this.#server.turns.add(this);
  }

  turn(): void {
    this.connection.turn();
  }

  nowUs(): number {
    return this.#server.options.clock.now();
  }

  cut(): void {
    this.#socket.terminate();
  }

  lost(): void {
    for (const [watch, item] of this.#watched) watch?.forget(item);
    this.#server.turns.delete(this);
    this.connection.lost();
  }

  /** Pings a silent client, with one ping at a time and any number of pings, like gRPC's core (`chttp2_transport.cc`). */
  readonly #silence: TimedItem = {
    expire: () => {
      const { options, silent, unanswered } = this.#server;
      if (this.#heard || (!options.keepAlive.withoutCalls && this.connection.streams === 0)) {
        this.#watchAnew(silent, this.#silence);
        return;
      }
      this.#pinged = true;
      this.connection.ping();
      this.#watchAnew(unanswered, this.#answer);
    },
  };
}
