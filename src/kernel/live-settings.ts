/**
 * What of a running server can change? Limits of admission, logs, failures and fixtures change in place, the pace at each engine's
 * next boundary. All that was asked for, or nothing.
 */

import type { StepPacing } from "../engine/setup.ts";
import type { FaultsConfig } from "../faults/faults-config.ts";
import type { Fixtures } from "../text/canned/fixtures/fixtures.ts";
import { type FrontLimits, frontLimitsOf } from "../wire/http/front-limits.ts";
import type { KernelConfig, QueueConfig } from "./kernel-config.ts";

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** Who may change the server, and what it would be then. */
export interface Admin {
  readonly key: string;
  readonly options: {
    read(): Changes;
    changed(changes: Changes): { readonly config: KernelConfig; readonly keep: () => void } | WrongChange;
  };
}

type Changes = Readonly<Record<string, unknown>>;

/** What the routes of a changing server do. */
export interface AdminOptions {
  readonly key: string;
  /** What holds, by names of options. */
  read(): Changes;
  /** Takes the changes; or says what is wrong with which of them, and then nothing has changed. */
  change(changes: Changes): Promise<WrongChange | null>;
}

/** What is wrong with a change, and with which key; null where no single key is at fault. */
export interface WrongChange {
  readonly key: string | null;
  readonly message: string;
}

export class LiveSettings<C extends KernelConfig = KernelConfig> {
  readonly #frontLimits: Mutable<FrontLimits>;
  readonly #faults: Mutable<FaultsConfig>;
  readonly #queue: Mutable<QueueConfig>;
  #folder: string | undefined;
  #fixtures: Fixtures | null = null;
  #logsAccess: boolean;
  #logsRequests: boolean;
  #logsWarnings: boolean;
  /** The configuration for those who read front limits, faults and the queue anew each time: these change. */
  readonly config: C;

  constructor(config: C) {
    this.#frontLimits = { ...frontLimitsOf(config) };
    this.#faults = { ...config.faults };
    this.#queue = { ...config.queue };
    this.#folder = config.text.fixtures;
    this.#logsAccess = !config.logs.disableAccessLog;
    this.#logsRequests = config.logs.enableLogRequests;
    this.#logsWarnings = !config.logs.disableWarnings;
    this.config = {
      ...config,
      listen: { ...config.listen, frontLimits: this.#frontLimits },
      faults: this.#faults,
      queue: this.#queue,
    };
  }

  get logsAccess(): boolean {
    return this.#logsAccess;
  }

  get logsRequests(): boolean {
    return this.#logsRequests;
  }

  /** Writes a warning as uvicorn writes it, while such are wanted. */
  warning(log: (line: string) => void): (what: string) => void {
    return (what) => {
      if (this.#logsWarnings) log(`WARNING:  ${what}`);
    };
  }

  /** The fixtures in force; `first` are those of the start. */
  following(first: Fixtures | undefined): Fixtures {
    this.#fixtures = first ?? null;
    return {
      answerTo: (question) => this.#fixtures?.answerTo(question) ?? null,
      close: () => this.#fixtures?.close(),
    };
  }

  /** What the owner of the key can do. `open` rejects with `UnusableFixtures`. */
  changing(
    { key, options }: Admin,
    retime: (pace: StepPacing) => void,
    open: (wire: { readonly fixtures: string }) => Promise<{ readonly fixtures?: Fixtures }>,
  ): AdminOptions {
    return {
      key,
      read: () => options.read(),
      change: async (changes) => {
        const next = options.changed(changes);
        if (!("config" in next)) return next;
        const { config } = next;
        const folder = config.text.fixtures;
        const isOther = folder !== this.#folder;
        try {
          const opened = folder === undefined || !isOther ? null : (await open({ fixtures: folder })).fixtures!;
          if (isOther) this.#follow(opened);
        } catch (error) {
          if (!(error instanceof Error && error.name === "UnusableFixtures")) throw error;
          return { key: "fixtures", message: `fixtures: ${error.message}` };
        }
        this.#take(config);
        const { timing, noise, speed } = config.engine;
        retime({ timing, ...(noise ? { noise } : {}), ...(speed === undefined ? {} : { speed }) });
        next.keep();
        return null;
      },
    };
  }

  #follow(fixtures: Fixtures | null): void {
    this.#fixtures?.close();
    this.#fixtures = fixtures;
  }

  #take(next: KernelConfig): void {
    const { requests, streams, overloadStatus, retryAfter } = frontLimitsOf(next);
    Object.assign(this.#frontLimits, { requests, streams, overloadStatus, retryAfter });
    const { failureRate, failureTypes, faultRate, faultTypes } = next.faults;
    Object.assign(this.#faults, { failureRate, failureTypes, faultRate, faultTypes });
    const { maxNumQueuedReqs, maxNumQueuedTokens, kvTransferTime } = next.queue;
    Object.assign(this.#queue, { maxNumQueuedReqs, maxNumQueuedTokens, kvTransferTime });
    this.#folder = next.text.fixtures;
    this.#logsAccess = !next.logs.disableAccessLog;
    this.#logsRequests = next.logs.enableLogRequests;
    this.#logsWarnings = !next.logs.disableWarnings;
  }
}
