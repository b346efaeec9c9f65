/** The interface through which the routes of a server reach its engines. Types only. */
import type { Generation, Receiver, Refusal, Submission } from "../engine/interface/types.ts";

/** Members that are absent are not offered: a test or a simulation may have only the others. */
export interface Backend {
  /** Hands a generation to an engine. `receiver` gets its tokens; it is not called before `submit` returns. */
  submit(generation: Generation, receiver: Receiver): Submission | Refusal;
  /** Resolves when the thread has some milliseconds before the next step. Await it before work on large bodies and prompts. */
  spare(): Promise<void>;
  /** Counts bytes that will soon be garbage: those of a body that was read, or of a long answer that was written. */
  consumed(bytes: number): void;
  /** Counts the garbage of reading one request for a stream. */
  read?(): void;
  /** Counts the garbage of beginning one stream. */
  opened?(): void;
  /** Collects young garbage, after hundreds of connections or streams have opened while hundreds were open. */
  crowded?(): void;
  /** Runs the steps that came due while other requests were read. Call it before each request. */
  catchUp?(): void;
  /** The time of the engines' clock, microseconds. `Generation.arrivalUs` is such a time. */
  nowUs(): number;
  /** Number of generations that have not ended. */
  inFlight?(): number;
  /** Number of generations that wait, and the share of the KV pool that is in use, 0 to 1. */
  load?(): { readonly waiting: number; readonly kvUsage: number };
  /** Stops the engines at the end of the current step, or lets them continue. Scripts use it. */
  standStill?(still: boolean): void;
  /** Kills the engines at the end of this turn of the event loop. Scripts use it. */
  die?(): void;
  /** Calls `act` after `us` microseconds. Returns a function that cancels the call. */
  after?(us: number, act: () => void): () => void;
}
