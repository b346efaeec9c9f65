/**
 * Interfaces between the code that makes answers and the servers that send them. Code above the wire uses only these, never a
 * socket.
 */

import type { LaneEnd } from "../../engine/interface/lanes.ts";
import type { Plan } from "../../faults/plan/types.ts";
import type { HttpRequest } from "./request.ts";

/** The destination of a stream's events. */
export interface EventSink {
  /**
   * The end of a lane that leads to this stream, so that native code can send events. Absent if lanes cannot reach the stream.
   */
  readonly laneEnd?: LaneEnd;
  /**
   * Sends one event. It leaves the process in this turn unless the client reads too slowly. Returns false if it does: the event
   * was accepted, but the caller keeps further events until `onDrain`.
   */
  write(event: string): boolean;
  /** Sends one event in three pieces of UTF-8, without joining or encoding them, for the hot path. Otherwise like `write`. */
  writeParts(before: Uint8Array, piece: Uint8Array, after: Uint8Array): boolean;
  /**
   * Holds back what is written next, so that it leaves together at `release` or `end`, which the caller calls in the same turn.
   * Absent if each event leaves by itself, or if the sink collects the events of a turn anyway.
   */
  gather?(): void;
  release?(): void;
  /** True while the client reads too slowly and the caller must wait for `onDrain`. */
  readonly full: boolean;
  /** Completes the stream with its last chunk. The connection stays usable. */
  end(): void;
  /** Breaks the stream off without a last chunk. */
  reset(): void;
}

/** Takes the parts of an answer whose length its head states. */
export interface PartSink {
  /**
   * Sends a part. Returns false if the client reads too slowly: the part was accepted, but the caller keeps further parts until
   * `onDrain`.
   */
  write(part: Uint8Array): boolean;
  readonly full: boolean;
}

/** Counts the bytes that wait for clients that read too slowly. */
export interface HeldBytes {
  /** Adds to the count. Negative: that many bytes no longer wait. */
  held(bytes: number): void;
}

/** Calls from a sink to the owner of its answer. `onGone` comes at most once. */
export interface SinkEvents {
  onDrain(): void;
  /** The client left (FIN or RST) before `end` was called. */
  onGone(): void;
  /** Called instead of `onGone` if the stream itself reported an engine failure to the client. Absent: `onGone` is called. */
  onFailed?(): void;
}

/** Record of an answer that a fault plan disturbed. Times are microseconds of the clock. */
export interface DisturbedAnswer {
  /** The plan as text; the same text disturbs another answer in the same way. */
  readonly line: string;
  /** End of the answer: the one that the plan ordered, or "gone" if the client left earlier. */
  readonly end: "done" | "fin" | "rst" | "reset" | "gone";
  readonly beganUs: number;
  /**
   * Per operation: time, kind ("bytes", "wait", "goaway" or an end), offset on the wire, length, and bytes that the socket
   * accepted at once. Length is in bytes, of a wait in microseconds, of a goaway its error code.
   */
  readonly operations: readonly (readonly [number, string, number, number, number])[];
  /** Number of operations after these that were not recorded. */
  readonly unkept: number;
  /** Events by their outcome, and how often each fault acted. */
  readonly account: {
    readonly came: number;
    readonly dropped: number;
    readonly whole: number;
    readonly cut: number;
    readonly fired: readonly { readonly id: string; readonly fault: string; readonly times: number }[];
  };
}

/** Observer of an answer that a fault plan disturbs. */
export interface FaultWitness {
  /** Called once, when the answer has ended. */
  told(answer: DisturbedAnswer): void;
  /** True if the observer needs no list of operations. */
  readonly isBrief?: boolean;
  /** Called with the approximate number of bytes that the disturbance allocated and that are garbage soon. */
  consumed?(bytes: number): void;
  /** Called with the bytes in the order in which they leave. The receiver may keep them. */
  sent?(bytes: Uint8Array): void;
}

/** A fault plan for one answer, and the key that its random draws follow from. */
export interface FaultOrder extends FaultWitness {
  readonly plan: Plan;
  readonly key: string;
}

/** The server, as handlers see it: takes their answers. Handlers return its `Response`s to Elysia. */
export interface HttpFront {
  /** Returned by a handler that answers later. Absent: the handler returns a promise of the result of `answer`. */
  readonly later?: Response;
  /** Calls `act` for each header line in the order sent, with the letter case of names as sent. Absent if these are not known. */
  eachSent?(request: HttpRequest, act: (name: string, value: string) => void): void;
  /** Returns the body and consumes it, or null if it has not arrived as a whole. */
  body(request: HttpRequest): Uint8Array | null;
  /**
   * Answers in one piece. The front adds date, length and the connection header to `headers` and keeps their order. `body` null:
   * no body. `bytes`: length of the body, if the caller knows it.
   */
  answer(
    request: HttpRequest,
    status: number,
    headers: Readonly<Record<string, string>>,
    body: string | Uint8Array | null,
    bytes?: number,
  ): Response;
  /** Opens a stream that holds back what is written until `begin`. `waiting` counts bytes that the socket has not accepted. */
  open(request: HttpRequest, owner: SinkEvents, waiting: HeldBytes | null): EventSink;
  /** Sends the head of an answer whose body is the stream that `open` returned for this request. */
  begin(request: HttpRequest, status: number, headers: Readonly<Record<string, string>>): Response;
  /** Sends the head of an answer of `bytes` bytes. It is complete when that many were written to the returned sink. */
  beginWhole(
    request: HttpRequest,
    owner: SinkEvents,
    status: number,
    headers: Readonly<Record<string, string>>,
    bytes: number,
  ): { readonly sink: PartSink; readonly response: Response };
  /**
   * Disturbs the request's answer, whatever its form. Must be called before the answer is opened or given. Absent if there is no
   * connection.
   */
  disturb?(request: HttpRequest, disturbance: FaultOrder): Promise<void>;
  /** HTTP version that the client speaks, such as "1.1". */
  version(request: HttpRequest): string;
  /** Address of the client, or null if there is no connection. */
  requestIP(request: HttpRequest): { readonly address: string; readonly port: number } | null;
}

/** A request, and the front that takes its answer: the server at whose socket it arrived, or `asResponses` for `app.handle`. */
export interface Context {
  readonly request: HttpRequest;
  readonly front: HttpFront;
}

/** Handlers by method and target that the server on sockets calls itself. Undefined if the application must answer. */
export interface HotRoutes {
  of(method: string, target: string): ((context: Context) => Response | Promise<Response>) | undefined;
}
