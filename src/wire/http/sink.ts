/** What do streams and whole answers write to? */

import type { LaneEnd } from "../../engine/interface/lanes.ts";
import type { Plan } from "../../faults/plan/types.ts";
import type { HttpRequest } from "./request.ts";

/** Where a stream's bytes go. Nothing above it knows the socket. */
export interface EventSink {
  /** Where events may go without it; absent: nowhere. */
  readonly laneEnd?: LaneEnd;
  /**
   * Hands one event over; it leaves the process in this turn while the client keeps up.
   * False: the client does not keep up. The event was taken, but the caller keeps what comes next until `onDrain`.
   */
  write(event: string): boolean;
  /** One event in three pieces of UTF-8, for the hot path: nothing is joined or encoded. As `write` otherwise. */
  writeParts(before: Uint8Array, piece: Uint8Array, after: Uint8Array): boolean;
  /**
   * What is written from now on leaves together, when `release` or `end` is called; both are called in the same turn. Absent:
   * each event leaves by itself, or the sink gathers the events of a turn anyway.
   */
  gather?(): void;
  release?(): void;
  /** True while the sink wants nothing more. */
  readonly full: boolean;
  /** The stream is complete: last chunk, connection stays usable. */
  end(): void;
  /** The stream is broken off without a last chunk. */
  reset(): void;
}

/** Where the parts of an answer go whose length was said. */
export interface PartSink {
  /** False: the client does not keep up. The part was taken, but the caller keeps what comes next until `onDrain`. */
  write(part: Uint8Array): boolean;
  readonly full: boolean;
}

/** Told what waits for clients that do not keep up. */
export interface HeldBytes {
  /** So many bytes more, or fewer. */
  held(bytes: number): void;
}

/** What a sink tells its owner. Each is called at most as often as it happens, `onGone` once. */
export interface SinkEvents {
  onDrain(): void;
  /** The client left (FIN, RST) before `end` was called. */
  onGone(): void;
  /** In place of `onGone`: the stream told its client that the engine failed. Absent: as `onGone`. */
  onFailed?(): void;
}

/** How an answer left that a plan of faults disturbed. Microseconds of the clock. */
export interface DisturbedAnswer {
  /** The plan that orders the same again. */
  readonly line: string;
  /** As the plan has it, or the client left before. */
  readonly end: "done" | "fin" | "rst" | "reset" | "gone";
  readonly beganUs: number;
  /** Time, "bytes", "wait", "goaway" (its code in place of bytes) or an end, offset on the wire, bytes (of a wait: microseconds), bytes that were taken at once. */
  readonly operations: readonly (readonly [number, string, number, number, number])[];
  /** Operations behind those. */
  readonly unkept: number;
  /** Events by what became of them; faults by how often they acted. */
  readonly account: {
    readonly came: number;
    readonly dropped: number;
    readonly whole: number;
    readonly cut: number;
    readonly fired: readonly { readonly id: string; readonly fault: string; readonly times: number }[];
  };
}

/** Who is told of an answer that is disturbed. */
export interface FaultWitness {
  /** Once, how it went. */
  told(answer: DisturbedAnswer): void;
  /** What it is told has no operations: nobody looks at them. */
  readonly isBrief?: boolean;
  /** So many bytes, about, were made to disturb it, and are garbage soon. */
  consumed?(bytes: number): void;
  /** Bytes as they leave, in their order; the receiver's from then on. */
  sent?(bytes: Uint8Array): void;
}

/** What disturbs an answer: a plan, and the key that its draws follow from. */
export interface FaultOrder extends FaultWitness {
  readonly plan: Plan;
  readonly key: string;
}

/** Who takes the answers of handlers. The `Response`s that it gives are to be handed on to Elysia. */
export interface HttpFront {
  /** What a handler may return at once whose answer is given later; absent: it returns a promise of what `answer` gives. */
  readonly later?: Response;
  /** Header lines in their order, names in the letters in which they were sent. Absent: nobody knows these any more. */
  eachSent?(request: HttpRequest, act: (name: string, value: string) => void): void;
  /** The body, where all of it is there; once. null: it is still to come. */
  body(request: HttpRequest): Uint8Array | null;
  /** `headers` in their order; the front adds date, length and what ends the connection. null: no body; `bytes`: of it, where that is known. */
  answer(
    request: HttpRequest,
    status: number,
    headers: Readonly<Record<string, string>>,
    body: string | Uint8Array | null,
    bytes?: number,
  ): Response;
  /** A stream that holds what is written to it until `begin`. `waiting` is told of events that the socket has not taken. */
  open(request: HttpRequest, owner: SinkEvents, waiting: HeldBytes | null): EventSink;
  /** Sends the head of an answer whose body is the request's stream. */
  begin(request: HttpRequest, status: number, headers: Readonly<Record<string, string>>): Response;
  /** Sends the head of an answer of so many bytes; it is complete when all of them were written. */
  beginWhole(
    request: HttpRequest,
    owner: SinkEvents,
    status: number,
    headers: Readonly<Record<string, string>>,
    bytes: number,
  ): { readonly sink: PartSink; readonly response: Response };
  /** Has the request's answer disturbed, whichever it is; before it is opened or given. Absent: there is no connection. */
  disturb?(request: HttpRequest, disturbance: FaultOrder): Promise<void>;
  /** "1.1", or what the client speaks. */
  version(request: HttpRequest): string;
  /** The client's address; null: there is no connection. */
  requestIP(request: HttpRequest): { readonly address: string; readonly port: number } | null;
}

/** A request, and what takes its answer: the server that it came to, or `asResponses` for a program's request. */
export interface Context {
  readonly request: HttpRequest;
  readonly front: HttpFront;
}

/** Handlers by method and target that the server on sockets calls itself. Undefined if the application must answer. */
export interface HotRoutes {
  of(method: string, target: string): ((context: Context) => Response | Promise<Response>) | undefined;
}
