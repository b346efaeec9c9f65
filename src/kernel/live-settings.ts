/**
 * What of a running server can change? Limits of admission, logs, failures and fixtures change in place, the pace at each engine's
 * next boundary. All that was asked for, or nothing.
 */
import { type FrontLimits, frontLimitsOf } from "../config/front-limits.ts";
import type { ServeConfig, WireConfig } from "../config/types.ts";
import type { StepPacing } from "../engine/setup.ts";
import type { Fixtures } from "../text/canned/fixtures/fixtures.ts";

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** Who may change the server, and what it would be then. */
export interface Admin {
  readonly key: string;
  readonly options: {
    read(): Changes;
    changed(changes: Changes): { readonly config: ServeConfig; readonly keep: () => void } | WrongChange;
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

export class LiveSettings {
  readonly #frontLimits: Mutable<FrontLimits>;
  readonly #wire: Mutable<WireConfig>;
  #fixtures: Fixtures | null = null;
  #logsAccess: boolean;
  #logsRequests: boolean;
  #logsWarnings: boolean;
  /** The configuration for those who read `frontLimits` and `wire` anew each time: these change. */
  readonly config: ServeConfig;

  constructor(config: ServeConfig) {
    this.#frontLimits = { ...frontLimitsOf(config) };
    this.#wire = { ...config.wire };
    this.#logsAccess = !config.disableAccessLog;
    this.#logsRequests = config.enableLogRequests;
    this.#logsWarnings = !config.disableWarnings;
    this.config = { ...config, frontLimits: this.#frontLimits, wire: this.#wire };
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
        const folder = config.wire?.fixtures;
        const isOther = folder !== this.#wire.fixtures;
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

  #take(next: ServeConfig): void {
    const { requests, streams, overloadStatus, retryAfter } = frontLimitsOf(next);
    Object.assign(this.#frontLimits, { requests, streams, overloadStatus, retryAfter });
    const {
      fixtures,
      maxNumQueuedReqs,
      maxNumQueuedTokens,
      failureRate,
      failureTypes,
      faultRate,
      faultTypes,
      kvTransferTime,
    } = next.wire ?? {};
    const failures = { failureRate, failureTypes, faultRate, faultTypes };
    Object.assign(this.#wire, { fixtures, maxNumQueuedReqs, maxNumQueuedTokens, ...failures, kvTransferTime });
    this.#logsAccess = !next.disableAccessLog;
    this.#logsRequests = next.enableLogRequests;
    this.#logsWarnings = !next.disableWarnings;
  }
}
