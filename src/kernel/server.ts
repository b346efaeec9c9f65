/** The interface of a server: a folder of `src/servers/` that opens listeners over the kernel. Types only. */

import type { Kernel } from "./kernel.ts";
import type { KernelConfig } from "./kernel-config.ts";

/** `C`: the configuration that the server reads. */
export interface Server<C extends KernelConfig = KernelConfig> {
  /**
   * The parts of the configuration that the server reads besides the kernel's own: owners of rows in `src/cli/options/`.
   * The server is not started without them.
   */
  readonly options: readonly (keyof C)[];
  /** Rejects as `Bun.listen` does when a port is in use. Nothing is left listening then. */
  start(kernel: Kernel<C>): Promise<Listeners<C>>;
}

/** The open ports of a server. */
export interface Listeners<C extends KernelConfig = KernelConfig> {
  /** URL of the first port. "": the server has no HTTP. */
  readonly url: string;
  /** URL of a port for Triton's metrics. null: there is none. */
  readonly tritonUrl: string | null;
  /** URL of a port for HTTP/2. null: there is none. */
  readonly http2Url: string | null;
  /** URLs of further ports, by their names in the ready file. null: that port is not open. */
  readonly otherUrls?: Readonly<Record<string, string | null>>;
  /** Returns the first lines of the log, in place of vLLM's. `startedMs`: how long the start took. */
  readonly banner?: (startedMs: number) => string;
  /**
   * Resolves when the work that the kernel does not know of has ended, at the latest at `untilUs`. Returns the reason if
   * the process must end with an error.
   */
  readonly drain?: (untilUs: number) => Promise<string | undefined>;
  /** Work that the first requests do not need, for idle time (`workWhenIdle`). */
  readonly idleWork?: readonly (() => unknown)[];
  /** Answers a request as a client on the socket gets it answered. A stream is the body of the `Response`. */
  handle(request: Request): Promise<Response>;
  /** Sends new requests to this kernel. Streams of earlier requests end with their engines. */
  turnTo(kernel: Kernel<C>): Promise<void>;
  /** Accepts no new connection. Resolves when the last one has ended. With `cut` they are closed at once. */
  stop(cut?: boolean): Promise<unknown>;
}
