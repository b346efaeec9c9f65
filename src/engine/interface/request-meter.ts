/**
 * What does a server in front of the engine count of a generation? Its beginning, its first token and its end: never a
 * token in between. Times are microseconds on the engine's clock.
 */
import type { Finish, Generation } from "./types.ts";

/** One generation on its way. Exactly one `ended`. */
export interface RequestMeter {
  /** The generation's first token is known; only called where somebody listens to tokens. */
  first(dueUs: number): void;
  /**
   * `dueUs`: the end of the step that ended it; `handedUs`: when its receiver was told; `nowUs`: when that had taken it in.
   * All three are the same where it was ended from outside.
   */
  ended(finish: Finish, outputTokens: number, dueUs: number, handedUs: number, nowUs: number): void;
}

export interface RequestMeters {
  /** The engine was given a generation at `submittedUs` and has it at `takenUs`. */
  begun(generation: Generation, streams: boolean, submittedUs: number, takenUs: number): RequestMeter;
  /** The engine did not take this generation. */
  refused(generation: Generation, submittedUs: number): void;
  /** What was counted: always as many numbers. */
  readonly numbers: ArrayLike<number>;
}
