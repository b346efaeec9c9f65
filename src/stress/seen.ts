/** What has a client seen of an answer? What it says itself, and what stood on the wire. */

/** Null: the client does not say. */
export interface SeenAnswer {
  readonly text: string;
  readonly finish: string | null;
  readonly usage: { readonly prompt: number; readonly completion: number } | null;
  /** What kind of error it saw; null: none. */
  readonly error: string | null;
  /** The error is of a kind that is the client's own; null: it does not say. */
  readonly own: boolean | null;
  /** How the client itself ended, where that is no answer. */
  readonly ended: "answered" | "crashed" | "hung";
}

/** Requests of a case, as the server had them. Microseconds. */
export interface SeenRequests {
  readonly requests: readonly {
    readonly atUs: number;
    readonly status: number;
    /** Events with text had left before its connection ended, or it was complete. */
    readonly toldText: boolean;
    /** Seconds of its Retry-After; null: none. */
    readonly retryAfterS: number | null;
  }[];
  /** Connections that are open a while after the end. */
  readonly open: number;
}
