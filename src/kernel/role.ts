/** What is a role? It brings listeners and routes over the parts that every server has. */
import type { KernelConfig } from "./kernel-config.ts";
import type { Parts } from "./parts.ts";

/** `C`: the configuration that the server reads. */
export interface Listeners<C extends KernelConfig = KernelConfig> {
  /** "": there is no HTTP. */
  readonly url: string;
  /** Where Triton's metrics have a port of their own. */
  readonly tritonUrl: string | null;
  /** Where there is a port for HTTP/2. */
  readonly http2Url: string | null;
  /** Further ones, by what a ready file calls them; null: not there. */
  readonly otherUrls?: Readonly<Record<string, string | null>>;
  /** What the start says instead of vLLM's lines: after so many milliseconds. */
  readonly banner?: (startedMs: number) => string;
  /** Settles when nothing runs any more that the parts do not know of, at the latest at that time; gives why the end is none in order, if so. */
  readonly drain?: (untilUs: number) => Promise<string | undefined>;
  /** Answers a request as a client on the socket gets it answered; a stream is the body of the `Response`. */
  handle(request: Request): Promise<Response>;
  /** Requests go to these parts from now on; streams of those before end with their engines. */
  turnTo(parts: Parts<C>): Promise<void>;
  /** Nobody new is taken; settles when the last connection has ended. With `cut` they are closed at once. */
  stop(cut?: boolean): Promise<unknown>;
}

export interface Role<C extends KernelConfig = KernelConfig> {
  /** Rejects as `Bun.listen` does when a port is in use; nothing is left listening then. */
  listen(parts: Parts<C>): Promise<Listeners<C>>;
}
