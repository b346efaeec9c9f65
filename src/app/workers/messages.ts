/** What do the process that was started and its workers say to each other? Structured clones over the channel of their birth. */

import type { Pages } from "../../metrics/rows/shared.ts";
import type { ServeConfig } from "../config/serve-config.ts";

/** What acts on all engines, whichever worker was asked. */
export type WorkerCommand =
  | { readonly name: "pause"; readonly mode: "abort" | "wait" | "keep"; readonly clearCache: boolean }
  | { readonly name: "resume" }
  | { readonly name: "sleeps"; readonly sleep: number; readonly asleep: readonly string[] }
  | { readonly name: "resetPrefixCache"; readonly running: boolean };

/** Who a worker is; constant, but for `paused`, over its lives. */
export interface WorkerSetup {
  readonly config: ServeConfig;
  /** From 0. */
  readonly index: number;
  readonly workers: number;
  /** Start of the server: seconds since 1970. */
  readonly startedS: number;
  /** How long the server took until it started workers, seconds: the same for all. */
  readonly loadS: number;
  /** They lie in the server's private folder. */
  readonly pages: Pages;
  /** The others were paused before this one came. */
  readonly paused: boolean;
}

export type ToWorker =
  | { readonly start: WorkerSetup }
  /** Do it and answer `did`. */
  | { readonly order: number; readonly command: WorkerCommand }
  /** What all workers together answered to `ask`. */
  | { readonly done: number; readonly answer: boolean }
  /** End in order; runs get `graceS`. */
  | { readonly end: number };

export type FromWorker =
  | { readonly listening: string }
  /** The worker cannot start, and could not a second time either: one line for the user. */
  | { readonly refused: string; readonly code: string | undefined }
  | { readonly ask: number; readonly command: WorkerCommand }
  | { readonly did: number; readonly answer: boolean }
  /** The worker ends in order now; so many requests were open when it began to. */
  | { readonly ended: number };
