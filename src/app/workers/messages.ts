/** Messages between the parent process and its workers. They are sent as structured clones over the channel of `Bun.spawn`. */

import type { Pages } from "../../metrics/rows/shared.ts";
import type { ServeConfig } from "../config/serve-config.ts";

/** A command for all engines, independent of the worker that received the request. */
export type WorkerCommand =
  | { readonly name: "pause"; readonly mode: "abort" | "wait" | "keep"; readonly clearCache: boolean }
  | { readonly name: "resume" }
  | { readonly name: "sleeps"; readonly sleep: number; readonly asleep: readonly string[] }
  | { readonly name: "resetPrefixCache"; readonly running: boolean };

/** Start values of a worker. Only `paused` may change between its restarts. */
export interface WorkerSetup {
  readonly config: ServeConfig;
  /** Number of the worker, from 0. */
  readonly index: number;
  readonly workers: number;
  /** Start of the server, in seconds since 1970. */
  readonly startedS: number;
  /** Seconds that the parent needed before it started workers. */
  readonly loadS: number;
  /** Shared pages of counters, in the server's private folder. */
  readonly pages: Pages;
  /** True if the engines of the other workers are paused. */
  readonly paused: boolean;
}

export type ToWorker =
  | { readonly start: WorkerSetup }
  /** Runs a command. The worker answers with `did`. */
  | { readonly order: number; readonly command: WorkerCommand }
  /** The common result of all workers for an `ask`. */
  | { readonly done: number; readonly answer: boolean }
  /** Shuts down. Running requests get this many seconds. */
  | { readonly end: number };

export type FromWorker =
  | { readonly listening: string }
  /** The worker cannot start, and a restart would not help. One line for the user. */
  | { readonly refused: string; readonly code: string | undefined }
  | { readonly ask: number; readonly command: WorkerCommand }
  | { readonly did: number; readonly answer: boolean }
  /** The worker has shut down. The number of requests that were open at the start of the shutdown. */
  | { readonly ended: number };
