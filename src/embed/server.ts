/** What is a server for tests, wherever it runs? */

import { WallClock } from "../base/clock.ts";
import { type AsyncDisposing, ClosedByAwaitUsing } from "../base/disposal.ts";
import type { EngineSnapshot } from "../engine/interface/types.ts";
import type { ClientRequest } from "../kernel/client-request.ts";
import type { Exposition } from "../tools/check/pages/exposition.ts";
import { parse } from "../tools/check/pages/parse.ts";
import { Reading, type Where } from "../tools/check/pages/reading.ts";
import type { AnswerInCode, AskedRequest, RequestMatch } from "./answers.ts";
import { timelineOf } from "./timeline.ts";

/** The server at a moment. */
export interface ServerState {
  /** HTTP requests whose answers are not complete. */
  readonly open: number;
  /** Sequences that the engines run, and that wait in their queues; sums over all engines, as `/metrics` shows them. */
  readonly running: number;
  /** Sequences in the engines' queues, likewise. */
  readonly waiting: number;
  /** Share of the KV blocks in use, 0 to 1; the mean over the engines. */
  readonly kvUsage: number;
  /** Since the start, or the last reset. */
  readonly promptTokens: number;
  /** Output tokens, likewise. */
  readonly generationTokens: number;
  /** Sequences that lost their blocks, likewise. */
  readonly preemptions: number;
  /** Each engine's numbers. */
  readonly engines: readonly EngineSnapshot[];
}

/** A page of metrics, parsed. */
export interface MetricsPage {
  /** As it was sent. */
  readonly text: string;
  /** Families with their samples. */
  readonly exposition: Exposition;
  /** Sum over the series of that sample name whose labels are these; null where there is none. */
  value(name: string, labels?: Where): number | null;
}

/** How long `until` and `idle` wait. */
export interface WaitOptions {
  /** Default 5000. */
  readonly timeoutMs?: number;
}

/** A server for tests: in this process under Bun, elsewhere in the one child that all servers of a process share. */
export interface Server extends AsyncDisposing {
  /** `http://127.0.0.1:PORT`; throws until `ready`. */
  readonly url: string;
  /** Where Triton's metrics have a port of their own (`metricsPort`, 0 for a free one), its URL; throws until `ready`. */
  readonly metricsUrl: string | null;
  /** Resolves with the server when it answers; rejects when it cannot start, and when it was closed before. */
  readonly ready: Promise<Server>;
  /**
   * Resolves when the server has ended: with null after `close`, else with what happened (a script had its engine die, its
   * process was killed).
   */
  readonly ended: Promise<Error | null>;
  /** Ends what runs, after `shutdownTimeout` seconds at most, and frees the port. Rejects where a predicate of `on` has thrown since the last reset. */
  close(): Promise<void>;
  /** The requests that clients have sent since the start or the last reset, the oldest first; the last 1,000, bodies up to 64 MiB together. */
  requests(): Promise<readonly ClientRequest[]>;
  /** The last of `requests`. */
  lastRequest(): Promise<ClientRequest | undefined>;
  /** For messages: the last 20 of `requests` in a few lines, with their ways through the engine. */
  timeline(): Promise<string>;
  /**
   * Answers requests that match with this, from when the promise resolves until `reset`; the first rule that holds counts.
   * `match` as in a file of fixtures (docs/fixtures.md), or a predicate; one that throws is a 500 to the client.
   */
  on(
    match: RequestMatch | ((request: AskedRequest) => boolean | Promise<boolean>),
    answer: AnswerInCode,
  ): Promise<void>;
  /** Answers the next request that asks for a generation with this, before all rules. Several: one after the other. */
  next(answer: AnswerInCode): Promise<void>;
  /**
   * Everything as after the start, but for the port: running requests are aborted; answers, requests, queue, cache,
   * counters, ids and the seed's draws begin anew. Rejects where a predicate of `on` has thrown since the last one.
   */
  reset(): Promise<void>;
  /** The server's numbers now. */
  snapshot(): Promise<ServerState>;
  /** The page of `/metrics` now, parsed. */
  metrics(): Promise<MetricsPage>;
  /** Resolves with the first state for which it holds, looked at every few milliseconds; rejects at the timeout with what the state was. */
  until(holds: (state: ServerState) => boolean, options?: WaitOptions): Promise<ServerState>;
  /** `until` nothing is open, runs or waits. */
  idle(options?: WaitOptions): Promise<ServerState>;
}

/** What a running server is asked; all arguments and answers are JSON but for a predicate. */
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

/** What a server is once it has started. */
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

export interface Deferred<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (reason: unknown) => void;
}

/** Node 20 has no `Promise.withResolvers`. */
export function deferred<T>(): Deferred<T> {
  let [resolve, reject]: [Deferred<T>["resolve"], Deferred<T>["reject"]] = [() => {}, () => {}];
  const promise = new Promise<T>((one, other) => {
    [resolve, reject] = [one, other];
  });
  return { promise, resolve, reject };
}

const WAIT_MS = 5000;
const LOOK_US = 5000;

/** A server that is being started. */
export class StartingServer extends ClosedByAwaitUsing implements Server {
  readonly ready: Promise<Server>;
  readonly #starting: Promise<Running>;
  #running: Running | null = null;
  #closed: Promise<void> | null = null;
  #ended: Promise<Error | null> | null = null;
  #resetting: Promise<void> = Promise.resolve();
  /** What predicates have thrown. */
  #thrown: unknown[] = [];

  constructor(starting: Promise<Running>) {
    super();
    this.#starting = starting;
    this.ready = starting.then((running) => {
      if (this.#closed !== null) throw new Error("the server was closed before it was ready");
      this.#running = running;
      return this;
    });
    // Whoever waits for it hears of a failed start; whoever only closes need not.
    this.ready.catch(() => {});
  }

  get url(): string {
    return this.#known("url").url;
  }

  get metricsUrl(): string | null {
    return this.#known("metricsUrl").metricsUrl;
  }

  /** Asked for, it keeps the process alive until then. */
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
    // One after the other, each whole.
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
