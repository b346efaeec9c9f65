/** What does an application see of a connection? */
import type { Http2Application } from "./connection.ts";
import type { FrameWriterEnds } from "./frame-writer.ts";
import type { PingRules } from "./pings.ts";

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

/** What all connections of a server share. */
export interface ConnectionSide extends FrameWriterEnds, Pick<Http2Line, "address" | "port" | "refuseNext"> {
  readonly application: Http2Application;
  /** Whether the ping is one too many; `idle`: there is no stream. */
  readonly pings: PingRules;
  /** A header block was decoded that is long. `bytes`: of the block and the fields in it. */
  decoded?(bytes: number): void;
  /** 512 streams were opened while as many were open. */
  crowded?(): void;
  /** Something came. */
  heard(): void;
  /** The client answered a ping of ours. */
  acknowledged(): void;
  /** The client has introduced itself. */
  settled(): void;
  /** There is no stream any more, or one again. */
  rests(idle: boolean): void;
  /** The last stream ended behind `retire`, or the connection is beyond repair. */
  done(): void;
  /** Stops and continues reading of the socket. */
  pause(): void;
  resume(): void;
  /** Calls the connection's `turn` once, in one of the next turns of the event loop. */
  queue(): void;
  /** The time, microseconds. */
  nowUs(): number;
}
