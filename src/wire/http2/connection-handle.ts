/** Interfaces between a connection of HTTP/2, its application and its server. */

import type { OpenCount } from "../http/open-count.ts";
import type { Http2Application } from "./connection.ts";
import type { FrameWriterOwner } from "./frame-writer.ts";
import type { PingRules } from "./pings.ts";

/** A connection, as an application sees it. */
export interface ConnectionHandle {
  /** Address of the client. */
  readonly address: string;
  readonly port: number;
  /** Refuses new streams and ends the connection after its last stream. `code` goes to the client in a GOAWAY frame. */
  retire(code?: number): void;
  /** Tells the client that streams after `last` are not served, although they continue. */
  disown(last: number, code: number): void;
  /** Ends the connection after the bytes written so far. */
  end(): void;
  /** Resets the connection. */
  cut(): void;
  /** Closes that many of the next connections as soon as they are opened. */
  refuseNext(connections: number): void;
}

/** The server and its socket, as a connection sees them. */
export interface ConnectionSide extends FrameWriterOwner, Pick<ConnectionHandle, "address" | "port" | "refuseNext"> {
  readonly application: Http2Application;
  /** Decides whether the client pings too often. */
  readonly pings: PingRules;
  /** Counts the streams of all connections of the server. */
  readonly openStreams: OpenCount;
  /** Reports a long header block. `bytes`: of the block and of its decoded fields together. */
  decoded?(bytes: number): void;
  /** Reports that bytes arrived. */
  heard(): void;
  /** Reports that the client answered our ping. */
  acknowledged(): void;
  /** Reports that the client's first SETTINGS frame arrived. */
  settled(): void;
  /** Reports that the last stream ended (`idle` true), or that a stream opened after a time without streams (false). */
  rests(idle: boolean): void;
  /** Closes the socket, because the last stream ended after `retire` or the client broke the protocol. */
  done(): void;
  /** Stops reading from the socket. `resume` continues it. */
  pause(): void;
  resume(): void;
  /** Calls the connection's `turn` once, in one of the next turns of the event loop. */
  queue(): void;
  /** Returns the time in microseconds. */
  nowUs(): number;
}
