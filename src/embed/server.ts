/** A server for tests, in this process or in a child process. */

import { WallClock } from "../base/clock.ts";
import { type AsyncDisposing, ClosedByAwaitUsing } from "../base/disposal.ts";
import type { EngineSnapshot } from "../engine/interface/types.ts";
import type { ClientRequest } from "../kernel/client-request.ts";
import type { Exposition } from "../tools/check/pages/exposition.ts";
import { parse } from "../tools/check/pages/parse.ts";
import { Reading, type Where } from "../tools/check/pages/reading.ts";
import type { AnswerInCode, AskedRequest, RequestMatch } from "./answers.ts";
import { timelineOf } from "./timeline.ts";

/** Numbers of the server at one time. */
export interface ServerState {
  /** Number of HTTP requests whose answers are not complete. */
  readonly open: number;
  /** Number of running sequences, over all engines, as in `/metrics`. */
  readonly running: number;
  /** Number of sequences in the queues, over all engines. */
  readonly waiting: number;
  /** Share of the KV blocks in use, 0 to 1; the mean over the engines. */
  readonly kvUsage: number;
  /** Prompt tokens since the start or the last reset. */
  readonly promptTokens: number;
  /** Output tokens since the start or the last reset. */
  readonly generationTokens: number;
  /** Preemptions since the start or the last reset. */
  readonly preemptions: number;
  /** Numbers of each engine. */
  readonly engines: readonly EngineSnapshot[];
}

/** A parsed page of metrics. */
export interface MetricsPage {
  /** Text of the page as it was sent. */
  readonly text: string;
  /** Metric families with their samples. */
  readonly exposition: Exposition;
  /** Returns the sum over the series of a sample name that have these labels; null if no series does. */
  value(name: string, labels?: Where): number | null;
}

/** Options of `until` and `idle`. */
export interface WaitOptions {
  /** Maximum time to wait, in milliseconds. Default: 5000. */
  readonly timeoutMs?: number;
}

/** A server for tests. In Bun it runs in this process, elsewhere in a child process that all servers of the process share. */
export interface Server extends AsyncDisposing {
  /** `http://127.0.0.1:PORT`; throws until `ready`. */
  readonly url: string;
  /** URL of Triton's metrics; null without `metricsPort` (0: any free port). Throws until `ready`. */
  readonly metricsUrl: string | null;
  /** Resolves with the server once it accepts requests. Rejects if it cannot start or is closed before. */
  readonly ready: Promise<Server>;
  /**
   * Resolves when the server has ended: with null after `close`, else with the reason as an error (a script killed the engine, its
   * process was killed).
   */
  readonly ended: Promise<Error | null>;
  /**
   * Closes the server and frees the port. Running requests get `shutdownTimeout` seconds. Rejects if a predicate of `on` has thrown
   * since the last reset.
   */
  close(): Promise<void>;
  /** Returns the requests since the start or the last reset, oldest first: the last 1,000, with bodies up to 64 MiB in total. */
  requests(): Promise<readonly ClientRequest[]>;
  /** Returns the last of `requests`. */
  lastRequest(): Promise<ClientRequest | undefined>;
  /** Returns the last 20 of `requests` as text for messages, with their way through the engine. */
  timeline(): Promise<string>;
  /**
   * Answers matching requests with `answer`, from the time the promise resolves until `reset`. The first matching rule counts.
   * `match`: conditions as in fixtures (docs/how-to/fixtures.md), or a predicate. If it throws, the client gets a 500.
   */
  on(
    match: RequestMatch | ((request: AskedRequest) => boolean | Promise<boolean>),
    answer: AnswerInCode,
  ): Promise<void>;
  /** Answers the next generation request with `answer`, before all rules. Several calls answer successive requests. */
  next(answer: AnswerInCode): Promise<void>;
  /**
   * Restores the state after the start and keeps the port. Aborts running requests, and resets answers, requests, queue, cache,
   * counters, ids and random choices. Rejects if a predicate of `on` has thrown since the last reset.
   */
  reset(): Promise<void>;
  /** Returns the current numbers of the server. */
  snapshot(): Promise<ServerState>;
  /** Returns the current page of `/metrics`, parsed. */
  metrics(): Promise<MetricsPage>;
  /** Polls every few milliseconds. Resolves with the first state for which `holds` is true; rejects at the timeout with the state. */
  until(holds: (state: ServerState) => boolean, options?: WaitOptions): Promise<ServerState>;
  /** Waits until no request is open, running or waiting. */
  idle(options?: WaitOptions): Promise<ServerState>;
}

/** Calls to a running server. Arguments and results are JSON, except predicates. */
export interface ServerCalls {
  requests(): readonly ClientRequest[];
  lastRequest(): ClientRequest | undefined;
  on(match: unknown, answer: unknown): void;
  next(answer: unknown): void;
  reset(): Promise<void>;
  snapshot(): ServerState;
  page(): Promise<string>;
}

export type ServerCall = keyof ServerCalls;

/** A started server. */
export interface Running {
  readonly url: string;
  readonly metricsUrl: string | null;
  readonly ended: Promise<Error | null>;
  call<Name extends ServerCall>(
    name: Name,
    ...args: Parameters<ServerCalls[Name]>
  ): Promise<Awaited<ReturnType<ServerCalls[Name]>>>;
  close(): Promise<void>;
}

export interface OpenPromise<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (reason: unknown) => void;
}

/** Replaces `Promise.withResolvers`, which Node 20 lacks. */
export function deferred<T>(): OpenPromise<T> {
  let [resolve, reject]: [OpenPromise<T>["resolve"], OpenPromise<T>["reject"]] = [() => {}, () => {}];
  const promise = new Promise<T>((one, other) => {
    [resolve, reject] = [one, other];
  });
  return { promise, resolve, reject };
}

const WAIT_MS = 5000;
const LOOK_US = 5000;

/** A server whose start may not have finished. Calls wait for it. */
export class StartingServer extends ClosedByAwaitUsing implements Server {
  readonly ready: Promise<Server>;
  readonly #starting: Promise<Running>;
  #running: Running | null = null;
  #closed: Promise<void> | null = null;
  #ended: Promise<Error | null> | null = null;
  #resetting: Promise<void> = Promise.resolve();
  /** Errors that predicates have thrown. */
  #thrown: unknown[] = [];

  constructor(starting: Promise<Running>) {
    super();
    this.#starting = starting;
    this.ready = starting.then((running) => {
      if (this.#closed !== null) throw new Error("the server was closed before it was ready");
      this.#running = running;
      return this;
    });
    // Prevents an unhandled rejection if the caller never awaits `ready`.
    this.ready.catch(() => {});
  }

  get url(): string {
    return this.#known("url").url;
  }

  get metricsUrl(): string | null {
    return this.#known("metricsUrl").metricsUrl;
  }

  /** Reading it keeps the process alive until the server has ended. */
  get ended(): Promise<Error | null> {
    this.#ended ??= this.#starting.then(
      (running) => running.ended,
      (why: Error) => why,
    );
    return this.#ended;
  }

  close(): Promise<void> {
    this.#closed ??= this.#starting.then(
      async (running) => {
        await running.close();
        this.#rethrow();
      },
      () => {},
    );
    return this.#closed!;
  }

  requests(): Promise<readonly ClientRequest[]> {
    return this.#call("requests");
  }

  async lastRequest(): Promise<ClientRequest | undefined> {
    return (await this.#call("lastRequest")) ?? undefined;
  }

  async timeline(): Promise<string> {
    return timelineOf(await this.requests());
  }

  on(
    match: RequestMatch | ((request: AskedRequest) => boolean | Promise<boolean>),
    answer: AnswerInCode,
  ): Promise<void> {
    if (typeof match !== "function") return this.#call("on", match, answer);
    const watched = async (request: AskedRequest) => {
      try {
        return await match(request);
      } catch (error) {
        this.#thrown.push(error);
        throw error;
      }
    };
    return this.#call("on", watched, answer);
  }

  next(answer: AnswerInCode): Promise<void> {
    return this.#call("next", answer);
  }

  reset(): Promise<void> {
    // Resets run one after the other.
    const reset: Promise<void> = this.#resetting.then(async () => {
      await this.#call("reset");
    });
    this.#resetting = reset.catch(() => {});
    return reset.then(() => this.#rethrow());
  }

  snapshot(): Promise<ServerState> {
    return this.#call("snapshot");
  }

  async metrics(): Promise<MetricsPage> {
    const text = await this.#call("page");
    const exposition = parse(text);
    if ("unreadable" in exposition) throw new Error(`metrics: ${exposition.unreadable}`);
    const reading = new Reading(exposition, "");
    return { text, exposition, value: (name, labels) => reading.maybe(name, labels)?.value ?? null };
  }

  async until(holds: (state: ServerState) => boolean, { timeoutMs = WAIT_MS }: WaitOptions = {}): Promise<ServerState> {
    const clock = new WallClock();
    const endUs = clock.now() + timeoutMs * 1000;
    try {
      for (;;) {
        const state = await this.snapshot();
        if (holds(state)) return state;
        if (clock.now() >= endUs)
          throw new Error(`not within ${timeoutMs} ms: ${holds}; the state was ${shown(state)}`);
        await new Promise<void>((look) => clock.at(clock.now() + LOOK_US, look));
      }
    } finally {
      clock.close();
    }
  }

  idle(options?: WaitOptions): Promise<ServerState> {
    return this.until(({ open, running, waiting }) => open === 0 && running === 0 && waiting === 0, options);
  }

  async #call<Name extends ServerCall>(name: Name, ...args: Parameters<ServerCalls[Name]>) {
    const running = await this.#starting;
    if (this.#closed !== null) throw new Error(`${name}: the server is closed`);
    return running.call(name, ...args);
  }

  #rethrow(): void {
    const [first] = this.#thrown;
    if (this.#thrown.length === 0) return;
    this.#thrown = [];
    throw first;
  }

  #known(what: string): Running {
    if (this.#running === null) throw new Error(`the server is not ready: await server.ready first (server.${what})`);
    return this.#running;
  }
}

const shown = ({ engines: _, ...numbers }: ServerState): string =>
  Object.entries(numbers)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
