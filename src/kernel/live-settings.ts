/**
 * Settings of a running server that `/admin/config` changes. Limits of admission, logs, failures and fixtures change at once,
 * the pace at each engine's next boundary. A change takes effect as a whole or not at all.
 */

import { LiveCell, type LiveValue } from "../base/live-value.ts";
import { UserError } from "../base/start-errors.ts";
import type { StepPacing } from "../engine/config/engine-config.ts";
import type { FaultsConfig } from "../faults/faults-config.ts";
import type { Fixtures } from "../text/canned/fixtures/fixtures.ts";
import { FRONT_LIMITS, type OverloadLimits } from "../wire/http/front-limits.ts";
import type { QueueConfig, StartConfig } from "./kernel-config.ts";

/** Limits of the queue, as in vLLM. */
export type QueueLimits = Pick<QueueConfig, "maxNumQueuedReqs" | "maxNumQueuedTokens">;
/** Rate and kinds of requests that fail by chance. */
export type FailureRate = Pick<FaultsConfig, "failureRate" | "failureTypes">;
/** Rate and kinds of faults that disturb answers by chance. */
export type FaultRate = Pick<FaultsConfig, "faultRate" | "faultTypes">;

type ChangeableConfig = ReturnType<typeof changeableOf>;
type ValueName = keyof ChangeableConfig;
export type LiveConfig = { readonly [Name in ValueName]: LiveValue<ChangeableConfig[Name]> };
type LiveCells = { readonly [Name in ValueName]: LiveCell<ChangeableConfig[Name]> };

/** Returns the values that `/admin/config` changes. `KernelConfig`, which a running server reads, does not have them. */
function changeableOf(config: StartConfig) {
  const { requests, streams, overloadStatus, retryAfter } = config.listen.frontLimits ?? FRONT_LIMITS;
  const { maxNumQueuedReqs, maxNumQueuedTokens, kvTransferTime } = config.queue;
  const { failureRate, failureTypes, faultRate, faultTypes } = config.faults;
  const { timing, noise, speed } = config.engine;
  return {
    /** The pace of the engines. A member that is undefined has its default. */
    pace: { timing, noise, speed } as StepPacing,
    overload: { requests, streams, overloadStatus, retryAfter } as OverloadLimits,
    queueLimits: { maxNumQueuedReqs, maxNumQueuedTokens } as QueueLimits,
    failures: { failureRate, failureTypes } as FailureRate,
    faults: { faultRate, faultTypes } as FaultRate,
    /** undefined: requests do not wait for a transfer. */
    kvTransferTime,
    logsAccess: !config.logs.disableAccessLog,
    logsRequests: config.logs.enableLogRequests,
    logsWarnings: !config.logs.disableWarnings,
  };
}

function cellsOf(config: StartConfig): LiveCells {
  const cells = Object.entries(changeableOf(config)).map(([name, value]) => [name, new LiveCell(value)]);
  return Object.fromEntries(cells) as LiveCells;
}

/** The key that permits changes of a running server, and the options that they change. */
export interface Admin {
  readonly key: string;
  readonly options: {
    read(): Changes;
    changed(changes: Changes): { readonly config: StartConfig; readonly keep: () => void } | WrongChange;
  };
}

type Changes = Readonly<Record<string, unknown>>;

/** Functions that the routes under `/admin` call. */
export interface AdminOptions {
  readonly key: string;
  /** Returns the current values by names of options. */
  read(): Changes;
  /** Applies the changes and returns null. If one of them is wrong, returns it and changes nothing. */
  change(changes: Changes): Promise<WrongChange | null>;
}

/** The error of a change. `key` is null if no single key is at fault. */
export interface WrongChange {
  readonly key: string | null;
  readonly message: string;
}

export class LiveSettings {
  readonly values: LiveConfig;
  readonly #cells: LiveCells;
  #fixtures: Fixtures | null = null;
  #fixturesFolder: string | undefined;

  constructor(config: StartConfig) {
    this.#cells = cellsOf(config);
    this.values = this.#cells;
    this.#fixturesFolder = config.text.fixtures;
  }

  /** Returns a function that writes a warning in uvicorn's form, unless warnings are switched off. */
  warning(log: (line: string) => void): (what: string) => void {
    const { logsWarnings } = this.#cells;
    return (what) => {
      if (logsWarnings.get()) log(`WARNING:  ${what}`);
    };
  }

  /** Returns fixtures that always answer with the current folder. `first`: the fixtures of the start. */
  following(first: Fixtures | undefined): Fixtures {
    this.#fixtures = first ?? null;
    return {
      answerTo: (question) => this.#fixtures?.answerTo(question) ?? null,
      close: () => this.#fixtures?.close(),
    };
  }

  /** Returns the functions behind the routes under `/admin`. `open` rejects with a `UserError`. */
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
        const isOther = folder !== this.#fixturesFolder;
        try {
          const opened = folder === undefined || !isOther ? null : (await open({ fixtures: folder })).fixtures!;
          if (isOther) this.#follow(opened);
        } catch (error) {
          if (!(error instanceof UserError)) throw error;
          return { key: "fixtures", message: `fixtures: ${error.message}` };
        }
        this.#fixturesFolder = folder;
        this.#take(changeableOf(config));
        retime(this.#cells.pace.get());
        next.keep();
        return null;
      },
    };
  }

  #follow(fixtures: Fixtures | null): void {
    this.#fixtures?.close();
    this.#fixtures = fixtures;
  }

  #take(next: ChangeableConfig): void {
    const take = <Name extends ValueName>(name: Name) => this.#cells[name].set(next[name]);
    for (const name of Object.keys(next) as ValueName[]) take(name);
  }
}
