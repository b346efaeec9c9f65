/**
 * Interface for counting generations like a server in front of the engine: start, first token and end, but no tokens in
 * between. Times are microseconds of the engine's clock.
 */
import type { Finish, Generation } from "./types.ts";

/** Counts one generation. `ended` is called exactly once. */
export interface RequestMeter {
  /** The first token is known. Only called if the receiver needs tokens. */
  first(dueUs: number): void;
  /**
   * `dueUs`: end of the last step. `handedUs`: when the receiver was called. `nowUs`: when it returned. All three are
   * equal if the generation was ended from outside.
   */
  ended(finish: Finish, outputTokens: number, dueUs: number, handedUs: number, nowUs: number): void;
}

export interface RequestMeters {
  /** The engine got a generation at `submittedUs` and accepted it by `takenUs`. */
  begun(generation: Generation, streams: boolean, submittedUs: number, takenUs: number): RequestMeter;
  /** The engine refused this generation. */
  refused(generation: Generation, submittedUs: number): void;
  /** The counts. The length is constant. */
  readonly numbers: ArrayLike<number>;
}
