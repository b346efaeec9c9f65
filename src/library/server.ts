/** What is a server for tests, wherever it runs? */

export interface Server {
  /** `http://127.0.0.1:PORT`; throws until `ready`. */
  readonly url: string;
  /** Resolves with the server when it answers; rejects when it cannot start. */
  readonly ready: Promise<Server>;
  /** Ends what runs, after `shutdownTimeout` seconds at most, and frees the port. */
  close(): Promise<void>;
}

export interface Running {
  readonly url: string;
  close(): Promise<void>;
}

/** A server that is being started. */
export class StartingServer implements Server {
  readonly ready: Promise<Server>;
  readonly #running: Promise<Running>;
  #url: string | null = null;
  #closed: Promise<void> | null = null;

  constructor(running: Promise<Running>) {
    this.#running = running;
    this.ready = running.then(({ url }) => {
      this.#url = url;
      return this;
    });
    // Whoever waits for it hears of a failed start; whoever only closes need not.
    this.ready.catch(() => {});
  }

  get url(): string {
    if (this.#url === null) throw new Error("the server is not ready: await server.ready first");
    return this.#url;
  }

  close(): Promise<void> {
    this.#closed ??= this.#running.then(
      (running) => running.close(),
      () => {},
    );
    return this.#closed;
  }
}
