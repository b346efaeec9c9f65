/** The interface through which the routes of a server reach its engines. Types only. */
import type { Generation, Receiver, Refusal, Submission } from "../engine/interface/types.ts";

/** The engines of a server. */
export interface Backend {
  submit(generation: Generation, receiver: Receiver): Submission | Refusal;
  /** Settles when a few milliseconds of the thread hold nobody up: awaited before work on large bodies and prompts. */
  spare(): Promise<void>;
  /** A body of so many bytes was read: what becomes of it is garbage soon. */
  consumed(bytes: number): void;
  /** A request for a stream was read: what that leaves behind is garbage. */
  read?(): void;
  /** A stream begins: what making it leaves behind is garbage. */
  opened?(): void;
  /** Before each request: steps that came due while others were read are taken in. */
  catchUp?(): void;
  /** The engine's clock; arrivals are stamped with it. */
  nowUs(): number;
  /** Generations that have not ended. */
  inFlight?(): number;
  /** Those that wait, and the share of the KV pool that is in use. */
  load?(): { readonly waiting: number; readonly kvUsage: number };
  /** For scripts: no step is planned from the next boundary on, or again. */
  standStill?(still: boolean): void;
  /** For scripts: at the end of this turn the engine dies. */
  die?(): void;
  /** Runs `act` so much later; gives what takes it back. */
  after?(us: number, act: () => void): () => void;
}
