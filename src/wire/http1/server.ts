/**
 * Serves HTTP/1.1 on `Bun.listen`. `Bun.serve` would add answers of its own, but the bytes must equal uvicorn's. Requests go to
 * an application, which the server receives.
 */

import type { Clock } from "../../base/clock.ts";
import { giveConnection, takeConnection } from "../../base/descriptors.ts";
import { logUnexpected } from "../../base/unexpected.ts";
import { deadlines, pacing, type TimedItem, type Timer } from "../http/deadlines.ts";
import type { ConnectionLimits } from "../http/front-limits.ts";
import { hostCheck, INVALID_HOST } from "../http/host-check.ts";
import { OpenCount } from "../http/open-count.ts";
import type { HttpRequest } from "../http/request.ts";
import type { Application } from "../http/routes.ts";
import type { EventSink, FaultOrder, HeldBytes, HotRoutes, HttpFront, PartSink, SinkEvents } from "../http/sink.ts";
import { TurnQueue } from "../http/turn-queue.ts";
import { UnfinishedRequests } from "../http/unfinished.ts";
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
  /** True if several processes listen on the same port. */
  readonly reusePort: boolean;
  readonly frontLimits: ConnectionLimits;
  readonly clock: Pick<Clock, "now" | "at" | "about" | "turn">;
  /**
   * Called before each event of a socket, to run overdue callbacks: one turn of the event loop may bring thousands of events.
   * Absent: callbacks wait until the turn ends.
   */
  readonly catchUp?: (() => void) | undefined;
  /** Writes a warning to the log, with uvicorn's text. */
  readonly warn: (what: string) => void;
  readonly epochSeconds: () => number;
  /** Called with the number of bytes that became garbage. */
  readonly consumed?: (bytes: number) => void;
  /** Called after each 512 connections that open while at least as many are open. */
  readonly crowded?: (() => void) | undefined;
  /** Patterns of hosts whose requests are answered, see `isHostPattern`. Absent: all hosts. */
  readonly allowedHosts?: readonly string[] | undefined;
  /** Wire format. Absent: uvicorn's. */
  readonly style?: WireStyle;
  /**
   * True if first tokens come at once. The head of a stream then waits some turns of the event loop, to leave together with one.
   */
  readonly firstTokensAtOnce?: boolean;
}

/** Returned after an answer that was sent directly. Its content is never read. */
const ALREADY_ANSWERED = new Response(null);

/** The server. Its constructor throws like `Bun.listen` if the port is in use. */
export class HttpServer implements HttpFront, ServerSide {
  readonly later = ALREADY_ANSWERED;
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
  /** Connections with requests that were sent ahead of their answers. */
  readonly #turns: TurnQueue<Connection>;
  /** Number of next connections to close as soon as they are opened. */
  #refused = 0;
  readonly #pacing: Required<Timer>;
  readonly warn: (what: string) => void;
  readonly unfinished: UnfinishedRequests;
  readonly #openConnections: OpenCount;
  readonly lateHeads: LateHeads | null;
  /** True if new connections are closed without a byte. */
  #turnsAway = false;
  #stopped: PromiseWithResolvers<void> | null = null;

  constructor(app: Application, options: ListenOptions) {
    const { hostname, port, tls, reusePort, frontLimits, clock, catchUp = () => {} } = options;
    const timer = { nowUs: () => clock.now(), after: (us: number, act: () => void) => clock.at(clock.now() + us, act) };
    this.serve(app);
    this.#pacing = pacing(clock);
    this.#openConnections = new OpenCount(options.crowded);
    this.unfinished = new UnfinishedRequests(this.#pacing, options);
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
    // The types lack `reusePort`, which `Bun.listen` accepts.
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
          this.#openConnections.opened();
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
        // A failure in our code ends this connection only.
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

  /** Closes new connections without a byte from now on, as evhtp does at its end. Open connections stay. */
  turnAway(): void {
    this.#turnsAway = true;
  }

  /**
   * Stops listening. Idle connections close now, others after their answer, or all at once if `cut`. Resolves when none is left.
   */
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

  /** Reports whether a connection from this client port is open. */
  isOpen(port: number): boolean {
    for (const connection of this.#connections) if (connection.port === port) return true;
    return false;
  }

  requestIP(request: HttpRequest): { readonly address: string; readonly port: number } | null {
    return this.#of(request).connection;
  }

  eachSent(request: HttpRequest, act: (name: string, value: string) => void): void {
    this.#of(request).request.headers.eachSent(act);
  }

  body(request: HttpRequest): Uint8Array | null {
    return this.#of(request).request.whole();
  }

  answer(...[request, status, headers, body, bytes]: Parameters<HttpFront["answer"]>): Response {
    this.#of(request).answer(status, headers, body, bytes);
    return ALREADY_ANSWERED;
  }

  open(request: HttpRequest, owner: SinkEvents, waiting: HeldBytes | null): EventSink {
    return this.#of(request).open(owner, waiting);
  }

  begin(request: HttpRequest, status: number, headers: Readonly<Record<string, string>>): Response {
    this.#of(request).begin(status, headers);
    return ALREADY_ANSWERED;
  }

  beginWhole(
    request: HttpRequest,
    owner: SinkEvents,
    ...[status, headers, bytes]: [number, Readonly<Record<string, string>>, number]
  ): { readonly sink: PartSink; readonly response: Response } {
    return { sink: this.#of(request).beginWhole(owner, status, headers, bytes), response: ALREADY_ANSWERED };
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

  /** Passes a request to the application. Called by connections, as are the methods below. */
  handle(exchange: ServedExchange): void {
    const { request } = exchange;
    const { method, target } = request;
    if (this.#isAllowed !== null && !this.#isAllowed(request.headers)) {
      exchange.answer(INVALID_HOST.status, INVALID_HOST.headers, INVALID_HOST.body);
      return;
    }
    const hot = this.#hot.of(method, target);
    try {
      const result = hot === undefined ? this.#app.fetch(request) : hot({ request, front: this });
      if (!(result instanceof Promise)) send(exchange, result);
      else
        result.then(
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

  idle(connection: TimedItem): void {
    this.#idle?.watch(connection);
  }

  stirred(connection: TimedItem): void {
    this.#idle?.forget(connection);
  }

  waits(connection: TimedItem): void {
    this.#heads?.watch(connection);
  }

  asked(connection: TimedItem): void {
    this.#heads?.forget(connection);
  }

  refuse(connections: number): void {
    this.#refused += connections;
  }

  queue(connection: Connection): void {
    this.#turns.add(connection);
  }

  /** Returns the exchange of a request. All requests that handlers get from this server have one. */
  #of(request: HttpRequest): ServedExchange {
    return (request as IncomingRequest<ServedExchange & ReadControl>).reading;
  }

  /** Releases a connection. Undefined if the socket was never opened, for example without a TLS handshake. */
  #closed(connection: Connection | undefined): void {
    if (connection === undefined) return;
    giveConnection();
    this.#openConnections.ended();
    this.#connections.delete(connection);
    this.#turns.delete(connection);
    try {
      connection.lost();
    } finally {
      if (this.#connections.size === 0) this.#stopped?.resolve();
    }
  }
}

/** Sends a response that was not sent directly. */
function send(exchange: ServedExchange, response: Response): void {
  if (response !== ALREADY_ANSWERED) respond(exchange, response).catch((error) => broken(exchange, error));
}

/** Answers with 500, or breaks off an answer that has begun. */
function broken(exchange: ServedExchange, error: unknown): void {
  logUnexpected("a request failed", error);
  if (!exchange.answered) exchange.answer(500, FAILED, "Internal Server Error");
  else exchange.broken();
}

/** Headers of uvicorn's answer if the application fails. */
const FAILED = { "content-type": "text/plain; charset=utf-8", connection: "close" };
