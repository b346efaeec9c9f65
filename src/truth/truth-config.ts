/** The configuration of truth: what is kept of each request, and where it is written. */

/** `--truth-log`: where the truth about each request is written, and how much of it is kept. */
export interface TruthLogConfig {
  readonly file: string;
  /** Largest size of one file. */
  readonly maxBytes: number;
  /** Files kept, the one being written included. */
  readonly files: number;
  /** With the bytes of answers that a plan of faults disturbed; absent: without. */
  readonly wire?: boolean;
}

/** What is kept of each request. */
export interface TruthConfig {
  readonly log: TruthLogConfig | null;
  /** Generations that ended whose truth is kept in memory; 0: none. */
  readonly requests: number;
  /** What clients sent is kept for whoever asks over HTTP. */
  readonly keepBodies: boolean;
}
