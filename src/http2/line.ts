/** What does an application see of a connection? */

export interface Http2Line {
  /** The client's. */
  readonly address: string;
  readonly port: number;
  /** Nobody new is served; it ends when its last stream has. The client is told `code`. */
  retire(code?: number): void;
  /** Tells the client that streams behind this one are not served. They go on nevertheless. */
  disown(last: number, code: number): void;
  /** Ends it behind what was written. */
  end(): void;
  /** Resets it. */
  cut(): void;
  /** Closes so many connections as soon as they are opened. */
  refuseNext(connections: number): void;
}
