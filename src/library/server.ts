/** What is a server for tests, wherever it runs? */
import { type AsyncDisposing, ClosedByAwaitUsing } from "./disposal.ts";

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
  /** Ends what runs, after `shutdownTimeout` seconds at most, and frees the port. Harmless once more. */
  close(): Promise<void>;
}

/** What a server is once it has started. */
export interface Running {
  readonly url: string;
  readonly metricsUrl: string | null;
  readonly ended: Promise<Error | null>;
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

/** A server that is being started. */
export class StartingServer extends ClosedByAwaitUsing implements Server {
  readonly ready: Promise<Server>;
  readonly ended: Promise<Error | null>;
  readonly #starting: Promise<Running>;
  #running: Running | null = null;
  #closed: Promise<void> | null = null;

  constructor(starting: Promise<Running>) {
    super();
    this.#starting = starting;
    this.ready = starting.then((running) => {
      if (this.#closed !== null) throw new Error("the server was closed before it was ready");
      this.#running = running;
      return this;
    });
    this.ended = starting.then(
      ({ ended }) => ended,
      (why: Error) => why,
    );
    // Whoever waits for it hears of a failed start; whoever only closes need not.
    this.ready.catch(() => {});
  }

  get url(): string {
    return this.#known("url").url;
  }

  get metricsUrl(): string | null {
    return this.#known("metricsUrl").metricsUrl;
  }

  close(): Promise<void> {
    this.#closed ??= this.#starting.then(
      (running) => running.close(),
      () => {},
    );
    return this.#closed;
  }

  #known(what: string): Running {
    if (this.#running === null) throw new Error(`the server is not ready: await server.ready first (server.${what})`);
    return this.#running;
  }
}
