/**
 * Serves HTTP/1.1 on `Bun.listen`, because the answers must be uvicorn's to the byte and `Bun.serve` has answers of its own.
 * Requests go to the application that it is given.
 */

import type { Clock } from "../../base/clock.ts";
import { giveConnection, takeConnection } from "../../base/descriptors.ts";
import { logUnexpected } from "../../base/unexpected.ts";
import { deadlines, type Expiring, pacing, type Timer } from "../http/deadlines.ts";
import type { ConnectionLimits } from "../http/front-limits.ts";
import { hostCheck, INVALID_HOST } from "../http/host-check.ts";
import type { HttpRequest } from "../http/request.ts";
import type { Application } from "../http/routes.ts";
import type { EventSink, FaultOrder, HeldBytes, HotRoutes, HttpFront, PartSink, SinkEvents } from "../http/sink.ts";
import { TurnQueue } from "../http/turn-queue.ts";
import { Unfinished } from "../http/unfinished.ts";
import type { TlsFiles } from "../tls/certificates.ts";
import { Connection, type ServerSide, type Socket } from "./connection.ts";
import type { ServedExchange } from "./exchange.ts";
import { DateLine, uvicorn, type WireStyle } from "./head.ts";
import type { IncomingRequest, ReadControl } from "./request.ts";
import { respond } from "./respond.ts";
import { LateHeads } from "./stream.ts";

export interface ListenOptions {
  readonly hostname: string;
  readonly port: number;
  readonly tls: TlsFiles | undefined;
  /** Several processes listen on the same port. */
  readonly reusePort: boolean;
  readonly frontLimits: ConnectionLimits;
  readonly clock: Pick<Clock, "now" | "at" | "about" | "turn">;
  /**
   * Called before whatever comes, as thousands of connections and requests may in one turn of the event loop: who is overdue is
   * woken between two of them. Absent: they wait for the turn's end.
   */
  readonly catchUp?: (() => void) | undefined;
  /** Takes what uvicorn writes into its log as a warning. */
  readonly warn: (what: string) => void;
  readonly epochSeconds: () => number;
  /** Is told of bytes that are garbage now. */
  readonly consumed?: (bytes: number) => void;
  /** Hosts whose requests are answered, as `isHostPattern` has them. Absent: all. */
  readonly allowedHosts?: readonly string[] | undefined;
  /** Absent: uvicorn's. */
  readonly style?: WireStyle;
  /** True if first tokens come at once: the head of a stream waits some turns of the event loop for one, to leave with it. */
  readonly firstTokensAtOnce?: boolean;
}

/** What was answered directly is not answered again; never read. */
const TAKEN = new Response(null);

/** Throws as `Bun.listen` does when the port is in use. */
export class HttpServer implements HttpFront, ServerSide {
  readonly later = TAKEN;
  readonly hostname: string;
  readonly port: number;
  readonly scheme: "http" | "https";
  readonly style: WireStyle;
  readonly headBytes: number;
  #app!: Application;
  #hot!: HotRoutes;
  readonly #isAllowed: ReturnType<typeof hostCheck>;
  readonly #listener: Bun.TCPSocketListener<Connection>;
  readonly #connections = new Set<Connection>();
  readonly #epochSeconds: () => number;
  readonly #date = new DateLine();
  readonly #idle: ReturnType<typeof deadlines>;
  readonly #heads: ReturnType<typeof deadlines>;
  /** Connections with requests that were sent ahead. */
  readonly #turns: TurnQueue<Connection>;
  /** Connections that are still to be closed as they are opened. */
  #refused = 0;
  readonly #pacing: Required<Timer>;
  readonly warn: (what: string) => void;
  readonly unfinished: Unfinished;
  readonly lateHeads: LateHeads | null;
  /** Whoever connects is sent away without a word. */
  #turnsAway = false;
  #stopped: PromiseWithResolvers<void> | null = null;

  constructor(app: Application, options: ListenOptions) {
    const { hostname, port, tls, reusePort, frontLimits, clock, catchUp = () => {} } = options;
    const timer = { nowUs: () => clock.now(), after: (us: number, act: () => void) => clock.at(clock.now() + us, act) };
    this.serve(app);
    this.#pacing = pacing(clock);
    this.unfinished = new Unfinished(this.#pacing, options);
    this.#isAllowed = options.allowedHosts ? hostCheck(options.allowedHosts) : null;
    this.scheme = tls ? "https" : "http";
    this.style = options.style ?? uvicorn;
    this.headBytes = frontLimits.headBytes;
    this.#turns = new TurnQueue((run) => clock.turn(run));
    this.lateHeads = options.firstTokensAtOnce ? new LateHeads((run) => clock.turn(run)) : null;
    this.warn = options.warn;
    this.#epochSeconds = options.epochSeconds;
    this.#idle = deadlines(frontLimits.keepAliveS, timer);
    this.#heads = deadlines(frontLimits.bodyTimeoutS, timer);
    // The types lack `reusePort`, which `Bun.listen` takes.
    const listening: Bun.TCPSocketListenOptions<Connection> & { reusePort: boolean } = {
      hostname,
      port,
      reusePort,
      ...(tls ? { tls } : {}),
      socket: {
        open: (socket) => {
          catchUp();
          if (this.#turnsAway) {
            socket.end();
            return;
          }
          if (!takeConnection()) {
            socket.terminate();
            return;
          }
          socket.data = new Connection(socket as unknown as Socket, this);
          this.#connections.add(socket.data);
          if (this.#refused > 0) {
            this.#refused--;
            socket.data.shutDown();
          }
        },
        data: (socket, bytes) => {
          catchUp();
          socket.data?.data(bytes);
        },
        drain: (socket) => socket.data?.drain(),
        close: (socket) => this.#closed(socket.data),
        // Something here failed: it costs its connection alone.
        error: (socket, why) => {
          logUnexpected("a connection failed and is closed", why);
          socket.data?.shut();
          socket.terminate();
        },
      },
    };
    this.#listener = Bun.listen(listening);
    this.hostname = this.#listener.hostname;
    this.port = this.#listener.port;
  }

  /** Passes requests that come from now on to this application. */
  serve(app: Application): void {
    this.#app = app;
    this.#hot = app.hot ?? { of: () => undefined };
    app.attach?.(this);
  }

  /** Goes on for who is connected; who comes from now on has its connection closed without a byte, as evhtp does at the end. */
  turnAway(): void {
    this.#turnsAway = true;
  }

  /** Nobody new is taken; idle connections end, the others when they are answered, or at once. */
  stop(cut = false): Promise<void> {
    if (cut) for (const connection of this.#connections) connection.shut();
    this.#listener.stop(cut);
    this.#stopped ??= Promise.withResolvers<void>();
    for (const connection of [...this.#connections]) {
      if (cut) connection.cut();
      else connection.shutDown();
    }
    if (this.#connections.size === 0) this.#stopped.resolve();
    return this.#stopped.promise;
  }

  /** Whether a connection from this port of a client is open. */
  isOpen(port: number): boolean {
    for (const connection of this.#connections) if (connection.port === port) return true;
    return false;
  }

  requestIP(request: HttpRequest): { readonly address: string; readonly port: number } | null {
    return this.#of(request).line;
  }

  eachSent(request: HttpRequest, act: (name: string, value: string) => void): void {
    this.#of(request).request.headers.eachSent(act);
  }

  body(request: HttpRequest): Uint8Array | null {
    return this.#of(request).request.whole();
  }

  answer(...[request, status, headers, body, bytes]: Parameters<HttpFront["answer"]>): Response {
    this.#of(request).answer(status, headers, body, bytes);
    return TAKEN;
  }

  open(request: HttpRequest, owner: SinkEvents, waiting: HeldBytes | null): EventSink {
    return this.#of(request).open(owner, waiting);
  }

  begin(request: HttpRequest, status: number, headers: Readonly<Record<string, string>>): Response {
    this.#of(request).begin(status, headers);
    return TAKEN;
  }

  beginWhole(
    request: HttpRequest,
    owner: SinkEvents,
    ...[status, headers, bytes]: [number, Readonly<Record<string, string>>, number]
  ): { readonly sink: PartSink; readonly response: Response } {
    return { sink: this.#of(request).beginWhole(owner, status, headers, bytes), response: TAKEN };
  }

  async disturb(request: HttpRequest, order: FaultOrder): Promise<void> {
    const { FaultPipeline, FaultyStream } = await import("./faulty.ts");
    const exchange = this.#of(request);
    exchange.faulty = new FaultyStream(
      new FaultPipeline(order.plan, order.key, exchange.version === "2"),
      exchange,
      this.#pacing,
      order,
    );
  }

  version(request: HttpRequest): string {
    return this.#of(request).version;
  }

  /** For connections, as all below. */
  handle(exchange: ServedExchange): void {
    const { request } = exchange;
    const { method, target } = request;
    if (this.#isAllowed !== null && !this.#isAllowed(request.headers)) {
      exchange.answer(INVALID_HOST.status, INVALID_HOST.headers, INVALID_HOST.body);
      return;
    }
    const hot = this.#hot.of(method, target);
    try {
      const made = hot === undefined ? this.#app.fetch(request) : hot({ request, front: this });
      if (!(made instanceof Promise)) send(exchange, made);
      else
        made.then(
          (response) => send(exchange, response),
          (error) => broken(exchange, error),
        );
    } catch (error) {
      broken(exchange, error);
    }
  }

  date(): string {
    return this.#date.at(this.#epochSeconds());
  }

  idle(connection: Expiring): void {
    this.#idle?.watch(connection);
  }

  stirred(connection: Expiring): void {
    this.#idle?.forget(connection);
  }

  waits(connection: Expiring): void {
    this.#heads?.watch(connection);
  }

  asked(connection: Expiring): void {
    this.#heads?.forget(connection);
  }

  refuse(connections: number): void {
    this.#refused += connections;
  }

  queue(connection: Connection): void {
    this.#turns.add(connection);
  }

  /** All requests that this server passes on are its own. */
  #of(request: HttpRequest): ServedExchange {
    return (request as IncomingRequest<ServedExchange & ReadControl>).reading;
  }

  /** A connection that never spoke TLS, where it should, has not been opened. */
  #closed(connection: Connection | undefined): void {
    if (connection === undefined) return;
    giveConnection();
    this.#connections.delete(connection);
    this.#turns.delete(connection);
    try {
      connection.lost();
    } finally {
      if (this.#connections.size === 0) this.#stopped?.resolve();
    }
  }
}

/** What was not answered directly. */
function send(exchange: ServedExchange, response: Response): void {
  if (response !== TAKEN) respond(exchange, response).catch((error) => broken(exchange, error));
}

/** Answers with 500, or breaks off an answer that has begun. */
function broken(exchange: ServedExchange, error: unknown): void {
  logUnexpected("a request failed", error);
  if (!exchange.answered) exchange.answer(500, FAILED, "Internal Server Error");
  else exchange.broken();
}

/** As uvicorn's answer for an application that fails. */
const FAILED = { "content-type": "text/plain; charset=utf-8", connection: "close" };
