/** Who listens? HTTP/2 without upgrade, or behind TLS with ALPN: connections, how long they live, and their end. */

import type { Clock } from "../../base/clock.ts";
import { giveConnection, takeConnection } from "../../base/descriptors.ts";
import { logUnexpected } from "../../base/unexpected.ts";
import { deadlines, type Expiring } from "../http/deadlines.ts";
import { TurnQueue } from "../http/turn-queue.ts";
import type { TlsFiles } from "../tls/certificates.ts";
import { type Http2Application, Http2Connection } from "./connection.ts";
import { Http2Code } from "./frames.ts";
import type { ConnectionSide } from "./line.ts";
import { type PingLimits, PingRules } from "./pings.ts";

/** Names as gRPC's channel arguments; times of 0: never. */
export interface KeepAlive extends PingLimits {
  /** Silence after which a ping is sent. */
  readonly timeMs: number;
  /** Silence after that which ends the connection. */
  readonly timeoutMs: number;
  /** Without a stream. */
  readonly idleMs: number;
  readonly ageMs: number;
  readonly graceMs: number;
}

export interface Http2Options {
  readonly hostname: string;
  readonly port: number;
  readonly tls: TlsFiles | null;
  /** Several processes listen on the same port. */
  readonly reusePort: boolean;
  readonly keepAlive: KeepAlive;
  readonly clock: Pick<Clock, "now" | "at" | "turn">;
  /** As the server on HTTP/1 has it. */
  readonly catchUp?: (() => void) | undefined;
  /** Told of bytes that are garbage now. */
  readonly consumed?: ((bytes: number) => void) | undefined;
  /** Called after each 512 streams that are opened on a connection with as many open streams. */
  readonly crowded?: (() => void) | undefined;
}

type Socket = Bun.Socket<Client>;
/**
 * Garbage of a lost stream, in bytes. The request takes four times as much, but a collection for each four megabytes of it
 * would take longer than its reset.
 */
const LOST_STREAM_BYTES = 1024;
/** What a client may take to introduce itself. */
const PREFACE_S = 120;
/** Bun takes ALPN's names as they stand on the wire; its types lack that. */
const ALPN = Uint8Array.from([2, 104, 50]);

/** Throws as `Bun.listen` does when the port is in use. */
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
  readonly nameless: Watch;
  /** Connections with more frames, or streams to end, than one turn of the event loop has room for. */
  readonly turns: TurnQueue<Client>;
  /** Connections that are still to be closed as they are opened. */
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
    this.nameless = watch(PREFACE_S * 1000);
    // The types lack `reusePort`, which `Bun.listen` takes.
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
        // Something here failed: it costs its connection alone.
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

  /** Nobody new is taken; connections end when their streams have, or at once. */
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

/** A connection with its socket, and what may become too long on it. */
class Client implements ConnectionSide {
  readonly connection: Http2Connection;
  readonly application: Http2Application;
  readonly pings: PingRules;
  readonly address: string;
  readonly port: number;
  readonly #socket: Socket;
  readonly #server: Http2Server;
  readonly #watched: readonly (readonly [Watch, Expiring])[];
  /** A ping waits for its answer: whoever sends other things meanwhile is there. */
  readonly #answer: Expiring = {
    expire: () => {
      if (this.#heard) this.#watchAnew(this.#server.unanswered, this.#answer);
      else this.cut();
    },
  };
  readonly #idle: Expiring = { expire: () => this.connection.retire() };
  /** A ping has not been acknowledged. */
  #pinged = false;
  /** Something came since silence, or the wait for an answer, was last looked at. */
  #heard = false;

  constructor(socket: Socket, server: Http2Server) {
    const { keepAlive, clock } = server.options;
    this.#socket = socket;
    this.#server = server;
    this.address = socket.remoteAddress;
    // Bun's types lack it.
    this.port = (socket as unknown as { remotePort: number }).remotePort;
    this.application = server.application;
    this.pings = new PingRules(keepAlive, () => clock.now());
    this.connection = new Http2Connection(this);
    const grace: Expiring = { expire: () => this.cut() };
    const age: Expiring = {
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
      [server.nameless, { expire: () => this.connection.refuse(Http2Code.Protocol, "no settings came") }],
    ];
    server.silent?.watch(this.#silence);
    server.idle?.watch(this.#idle);
    server.aged?.watch(age);
    server.nameless?.watch(this.#watched.at(-1)![1]);
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

  crowded(): void {
    this.#server.options.crowded?.();
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
    // Whoever writes is told when it is done writing.
    queueMicrotask(() => this.cut());
  }

  /** For each read: what is watched looks at it when its time is over. */
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

  #watchAnew(watch: Watch, one: Expiring): void {
    this.#heard = false;
    watch?.watch(one);
  }

  settled(): void {
    this.#server.nameless?.forget(this.#watched.at(-1)![1]);
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
    for (const [watch, one] of this.#watched) watch?.forget(one);
    this.#server.turns.delete(this);
    this.connection.lost();
  }

  /** As gRPC's core: any number of pings, one at a time (`chttp2_transport.cc`). */
  readonly #silence: Expiring = {
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
