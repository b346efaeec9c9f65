/** A front end of vLLM with our engine behind it, for tests. */
import { type AsyncDisposing, ClosedByAwaitUsing } from "../base/disposal.ts";
import type { ServerOptions } from "./option-types.ts";
import { type Running, type Server, StartingServer } from "./server.ts";

/** Options of `startFront`. */
export interface FrontOptions {
  /**
   * Program of the front end and its arguments, such as `["vllm-rs", "serve", "/models/small"]`. Flags that are missing are
   * added: those of a foreign engine (vLLM 0.33), `--host 127.0.0.1`, and `--port` with a free port.
   */
  readonly command: readonly string[];
  /** Options of the engine. Its model, tokenizer, length and ranks follow from the command unless they are here. */
  readonly engine?: ServerOptions;
  /** Variables that the front end gets in addition to those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Maximum time until the front end is ready, in milliseconds. Default: 60000. */
  readonly timeoutMs?: number;
}

/** The engine behind a front end. It cannot be reset, because a front end of vLLM never accepts an engine again. */
export type FrontEngine = Pick<Server, "url" | "snapshot" | "metrics" | "until" | "idle">;

/** A running front end and its engine, which start and end together. */
export interface Front extends AsyncDisposing {
  /** URL of the front end, without a slash at the end. */
  readonly url: string;
  /** The engine: its numbers, and the URL of its own metrics. */
  readonly engine: FrontEngine;
  /** Resolves when both have ended: with null after `close`, else with the reason as an error. */
  readonly ended: Promise<Error | null>;
  /** Returns the newest 65,536 characters of what the front end has printed. */
  output(): Promise<string>;
  /** Ends the front end (SIGTERM, after 10 s SIGKILL) and then the engine. */
  close(): Promise<void>;
}

/** A started engine with the front end before it. `close` ends both. */
export interface RunningFront extends Running {
  readonly frontUrl: string;
  frontOutput(): Promise<string>;
}

export async function frontOf(running: RunningFront): Promise<Front> {
  return new StartedFront(await new StartingServer(Promise.resolve(running)).ready, running);
}

class StartedFront extends ClosedByAwaitUsing implements Front {
  readonly #server: Server;
  readonly #running: RunningFront;

  constructor(server: Server, running: RunningFront) {
    super();
    this.#server = server;
    this.#running = running;
  }

  get url(): string {
    return this.#running.frontUrl;
  }

  get engine(): FrontEngine {
    return this.#server;
  }

  get ended(): Promise<Error | null> {
    return this.#server.ended;
  }

  output(): Promise<string> {
    return this.#running.frontOutput();
  }

  close(): Promise<void> {
    return this.#server.close();
  }
}

/** Lets the tests of a process share a front end, one test after the other. Between tests, the engine comes to rest. */
export class SharedFront {
  readonly #start: () => Promise<Front>;
  #front: Promise<Front> | null = null;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(start: () => Promise<Front>) {
    this.#start = start;
  }

  /** Calls `act` with the front end after earlier calls have ended. Rejects with the error of `act`. */
  lend(act: (front: Front) => Promise<void>): Promise<void> {
    const lent = this.#turn.then(async () => {
      this.#front ??= this.#start();
      try {
        const front = await this.#front;
        await act(front).finally(() => this.#settle(front));
      } catch (why) {
        // A front end that did not start is started again for the next test.
        await this.#front?.catch(() => {
          this.#front = null;
        });
        throw why;
      }
    });
    this.#turn = lent.catch(() => {});
    return lent;
  }

  /** Waits until no request runs. A front end that has ended, or whose requests go on, is replaced for the next test. */
  async #settle(front: Front): Promise<void> {
    try {
      await Promise.all([front.engine.idle(), fetch(`${front.url}/health`)]);
    } catch {
      this.#front = null;
      await front.close();
    }
  }
}

const shared = new Map<string, SharedFront>();

export function sharedFront(start: (options: FrontOptions) => Promise<Front>, options: FrontOptions): SharedFront {
  const key = JSON.stringify(options);
  const one = shared.get(key) ?? new SharedFront(() => start(options));
  shared.set(key, one);
  return one;
}
