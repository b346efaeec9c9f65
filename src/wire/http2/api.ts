/** Serves the application of an HTTP/1 server over HTTP/2, with the same handlers. */
import type { ConnectionEffect } from "../../faults/plan/types.ts";
import type { HttpServer } from "../http1/server.ts";
import type { Http2Application } from "./connection.ts";
import type { ConnectionHandle } from "./connection-handle.ts";
import { type ExchangeServer, Http2Exchange } from "./exchange.ts";
import { listBytes, type RequestHead } from "./fields.ts";
import { encodeFields } from "./hpack.ts";
import type { KeepAlive } from "./pings.ts";
import { type Http2Stream, IGNORE, type StreamReceiver } from "./stream.ts";

const TOO_LARGE = encodeFields([
  [":status", "431"],
  ["content-length", "0"],
]);

/**
 * Keep-alive of an API server, given the idle limit in seconds. Any number of pings is answered; a silent connection ends as over
 * HTTP/1.
 */
export const apiKeepAlive = (idleS: number): KeepAlive => ({
  timeMs: 0,
  timeoutMs: 0,
  idleMs: idleS * 1000,
  ageMs: 0,
  graceMs: 0,
  leastIntervalMs: 0,
  strikesMost: 0,
  withoutCalls: true,
});

export class ApiOverHttp2 implements Http2Application, ExchangeServer {
  readonly scheme: "http" | "https";
  readonly style: HttpServer["style"];
  readonly unfinished: HttpServer["unfinished"];
  readonly fates = new WeakMap<ConnectionHandle, ConnectionEffect["next"]>();

  constructor(private readonly server: HttpServer) {
    this.scheme = server.scheme;
    this.style = server.style;
    this.unfinished = server.unfinished;
  }

  date(): string {
    return this.server.date();
  }

  open(stream: Http2Stream, head: RequestHead, connection: ConnectionHandle): StreamReceiver {
    const fate = this.fates.get(connection);
    if (fate) {
      // In a microtask, because the connection may be reading a frame at this moment.
      queueMicrotask(() => (fate === "rst" ? connection.cut() : connection.end()));
      return IGNORE;
    }
    if (listBytes(head.fields) > this.server.headBytes) {
      stream.head(TOO_LARGE, true);
      return IGNORE;
    }
    const exchange = new Http2Exchange(stream, head, connection, this);
    // In a microtask, so that a body that came in the same read as its head has arrived by then.
    queueMicrotask(() => {
      if (!exchange.request.signal.aborted) this.server.handle(exchange);
    });
    return exchange;
  }
}
