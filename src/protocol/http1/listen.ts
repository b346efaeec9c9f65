/** Which server listens under the routes? Bun's, or ours, by `--http-server`. */
import http from "node:http";
import type { Clock } from "../../clock.ts";
import type { TlsFiles } from "../../config/certificates.ts";
import type { DoorConfig } from "../../config/door.ts";
import type { HotRoutes } from "../sink.ts";

/** The part of Elysia that is used. */
interface Application {
  server: unknown;
  fetch(request: Request): Response | Promise<Response>;
  listen(options: object): unknown;
}

export interface ListenOptions {
  readonly hostname: string;
  readonly port: number;
  readonly tls: TlsFiles | undefined;
  /** Several processes listen on the same port. */
  readonly reusePort: boolean;
  readonly door: DoorConfig;
  readonly clock: Pick<Clock, "now" | "at" | "turn">;
  /** Takes what uvicorn writes into its log as a warning. */
  readonly warn: (what: string) => void;
  readonly epochSeconds: () => number;
  readonly hot?: HotRoutes;
}

export interface Listening {
  readonly hostname?: string | undefined;
  readonly port?: number | undefined;
  /** Nobody new is taken; settles when the last connection has ended. With `cut` they are closed at once. */
  stop(cut?: boolean): Promise<void>;
}

/** Throws when the port is in use. */
export async function listen(app: Application, options: ListenOptions): Promise<Listening> {
  const { hostname, port, tls, reusePort, door } = options;
  if (door.httpServer === "socket") {
    const { HttpServer } = await import("./server.ts");
    const server = new HttpServer(app, options);
    app.server = server;
    return server;
  }
  // Bun reads the limit when it begins to listen; the real server has none that holds.
  Object.assign(http, { maxHeaderSize: door.headBytes });
  app.listen({
    hostname,
    port,
    // Elysia would share the port with any process: a port in use must be an error.
    reusePort,
    idleTimeout: door.keepAliveS,
    ...(tls ? { tls } : {}),
    // Bodies have their limit where they are read, with an answer of ours.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
  });
  return app.server as Listening;
}
