/**
 * The request as handlers see it. Two classes implement it: the socket's `IncomingRequest`, and the web `Request` of a program that
 * calls `app.handle(request)`. It has the members that handlers read, so nothing must be cast to a `Request`.
 */

/** The part of `Headers` that handlers use. Names are in small letters. */
export interface HttpHeaders {
  get(name: string): string | null;
  has(name: string): boolean;
  forEach(act: (value: string, name: string) => void): void;
}

/** The part of `AbortSignal` that handlers use. It is aborted when the client leaves. */
export interface LeaveSignal {
  readonly aborted: boolean;
  addEventListener(
    type: "abort",
    listener: (() => void) | { handleEvent(): void },
    options?: { readonly once?: boolean },
  ): void;
}

export interface HttpRequest {
  readonly method: string;
  /** An absolute URL. From a socket its host is always `localhost`. */
  readonly url: string;
  /** Path and query as they were sent. Undefined for a web `Request`. */
  readonly target?: string;
  readonly headers: HttpHeaders;
  readonly signal: LeaveSignal;
  /** The body's parts as they arrive, or null without a body. Reading fails if the client leaves. */
  readonly body: AsyncIterable<Uint8Array> | null;
  /** Reads the whole body. Rejects if the client leaves. */
  bytes(): Promise<Uint8Array>;
  /** Reads the whole body as UTF-8. Rejects if the client leaves. */
  text(): Promise<string>;
  /** Reads the whole body as JSON. Rejects with a `SyntaxError` if it is not JSON. */
  json(): Promise<unknown>;
  /** Calls `take` with each part as it arrives; after a burst it waits for `turn`. Undefined for a web `Request`. */
  give?(take: (part: Uint8Array) => void, turn: () => Promise<void>): Promise<void>;
  /** Called if the body must be dropped to make room for others. Set by the body's reader; undefined for a web `Request`. */
  crowdedOut?: (() => void) | null;
}
