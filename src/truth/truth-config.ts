/** Configuration of the truth: what is kept of each request, and where it is written. */

/** `--truth-log`: where the truth about each request is written, and how much of it is kept. */
export interface TruthLogConfig {
  readonly file: string;
  /** Largest size of one log file, bytes. */
  readonly maxBytes: number;
  /** Number of log files that are kept, including the one being written. */
  readonly files: number;
  /** True if the log also holds the bytes of answers that faults changed (`--truth-wire`). Absent: false. */
  readonly wire?: boolean;
}

/** Returns null if there is no file, and so no log. */
export function truthLogOf({
  file,
  ...others
}: Omit<TruthLogConfig, "file"> & Partial<TruthLogConfig>): TruthLogConfig | null {
  return file === undefined ? null : { file, ...others };
}

/** Selects the data that is kept of each request. */
export interface TruthConfig {
  readonly log: TruthLogConfig | null;
  /** Number of finished requests whose truth is kept in memory. 0: none. */
  readonly requests: number;
  /** True if request bodies are kept, and shown under `/understudy/requests` (`--keep-bodies`). */
  readonly keepBodies: boolean;
}
