/** Declares the types of the reports on requests that clients sent. */

/** The way of one generation through the engine. Times are milliseconds since 1970; null: it has not come so far. */
export interface ClientGeneration {
  /** As the truth log calls it. */
  readonly id: string;
  /** Tokens of its prompt. */
  readonly promptTokens: number;
  /** Found in the prefix cache among them, known with the first token. */
  readonly cachedTokens: number;
  /** When it entered the engine's queue. */
  readonly queuedMs: number | null;
  /** When it was first planned into a step. */
  readonly scheduledMs: number | null;
  /** When its first token was due. */
  readonly firstTokenMs: number | null;
  /** Number of times that it lost its blocks. */
  readonly preemptions: number;
}

/** One HTTP request. Times are milliseconds since 1970. */
export interface ClientRequest {
  /** As the client wrote it: `POST`. */
  readonly method: string;
  /** With its query. */
  readonly path: string;
  /** Names in lower case; what looks like a key is struck out. */
  readonly headers: Readonly<Record<string, string>>;
  /** JSON as its value, anything else as text; null: it had none, nobody read it, or there was no room to keep it. */
  readonly body: unknown;
  /** Bytes of the body, kept or not. */
  readonly bodyBytes: number;
  /** When its head was there. */
  readonly arrivalMs: number;
  /** The answer's, once its head has left. */
  readonly status: number | null;
  /** `open`: it has not been answered, or its generation has not ended. `aborted`: the client left. `refused`, `failed`: an error, which `status` says. */
  readonly outcome: "open" | "answered" | "aborted" | "refused" | "failed";
  /** When the answer was complete, or the client left. */
  readonly endMs: number | null;
  /** Output tokens of all its choices, as far as they have come. */
  readonly tokens: number;
  /** `finish_reason` of each choice: null where it has not ended or ended with an error. Empty where nothing was generated. */
  readonly finish: readonly (string | null)[];
  /** The way of each choice, as far as it has come; empty with `truthRequests: 0`, where nobody notes it. */
  readonly generations: readonly ClientGeneration[];
}
