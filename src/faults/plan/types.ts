/** Types of faults, of plans, and of the operations into which the stages turn an answer. */

/**
 * Stage in which a fault acts. The first six are the stages of the pipeline, in the order in which they run. `instead` replaces
 * the answer, `grpc` acts only on gRPC calls, `client` is an act of a client.
 */
export type FaultStage = "events" | "text" | "coding" | "http" | "segments" | "end" | "instead" | "grpc" | "client";

export const ANSWER_DIALECTS = ["chat", "completions", "messages", "responses", "generate"] as const;
export type AnswerDialect = (typeof ANSWER_DIALECTS)[number];

/** Protocol that carries the answer: an HTTP version, or gRPC. */
export type FaultCarrier = "1.1" | "2" | "grpc";

export type PositionKind = "head" | "event" | "byte" | "done" | "every" | "drawn" | "chance";

/** Position in the answer at which a fault acts. */
export interface Position {
  readonly kind: PositionKind;
  /**
   * For `event` and `byte` the index; for `drawn` the number of events from which an event is drawn; for `chance` the
   * probability per event.
   */
  readonly at: number;
  /** Byte inside the event or head at which the fault acts. Null: the fault acts before the event or head. */
  readonly offset: number | null;
  /** Number of consecutive events on which the fault acts. */
  readonly count: number;
}

/** Parameter that a plan may give to a fault. A time is in microseconds and a size in bytes. A word must be one of `words`. */
export type FaultParameter =
  | { readonly name: string; readonly type: "word"; readonly words: readonly string[] }
  | {
      readonly name: string;
      readonly type: "time" | "size" | "count";
      readonly default: number;
      readonly least: number;
      readonly most: number;
    };

/** Describes what a fault does to the bytes, and how `understudy stress` judges a client that reads the bytes. */
export interface FaultRule {
  /** Effect of the fault on the bytes, as a noun phrase that is understandable alone in a table. */
  readonly what: string;
  /** Behavior that a correct client shows. */
  readonly oracle: string;
  /**
   * Source of the rule. "our rule": no specification decides, so we judge by a rule of our own. "policy": no specification
   * decides, and we do not judge.
   */
  readonly text: string;
  /**
   * Behaviors that count as correct. "policy": any except a crash. "either": the text or an error. Null: the behavior of a
   * client that decodes the bytes correctly.
   */
  readonly allows: "either" | "policy" | null;
}

/** A row of the table of faults. The row's rule applies to each variant of the fault that has no rule of its own. */
export interface FaultRow extends FaultRule {
  /** Id of the fault, such as `B2`. An id never changes. */
  readonly id: string;
  readonly stage: FaultStage;
  /**
   * Variants of the fault, such as `lines` of `B2,lines`, by the word that selects them. A variant has only the parts of the
   * rule that differ from the row's.
   */
  readonly ways: Readonly<Record<string, Partial<FaultRule>>>;
  readonly parameters: readonly FaultParameter[];
  readonly positions: readonly PositionKind[];
  /** True if a plan may name a byte inside an event as the position. */
  readonly inside: boolean;
  /** Position at which the fault acts if the plan names no position. */
  readonly position: string;
  readonly dialects: readonly AnswerDialect[];
  /** "others" if the fault also affects other connections or other requests; "answer" if not. */
  readonly reaches: "answer" | "others";
  /** Protocols over which the fault acts. Over any other protocol the fault does nothing. */
  readonly http: "any" | "1.1" | "2" | "grpc";
  /** Name of a group of faults, of which a plan may contain only one. "": the fault is in no group. */
  readonly excludes: string;
}

export interface PlannedFault {
  readonly row: FaultRow;
  readonly position: Position;
  readonly values: Readonly<Record<string, string | number>>;
  /** Text of the fault as the plan writes it, including the position. */
  readonly text: string;
}

export interface Plan {
  readonly faults: readonly PlannedFault[];
  readonly seed: number;
  /** Key that replaces the request's key in random draws. Null: draws use the request's key. */
  readonly key: string | null;
}

/** End of an answer: the regular end, or an early end of the connection or stream. */
export type AnswerEnding =
  /** The answer ends regularly. */
  | "done"
  /** The connection is closed with FIN. */
  | "fin"
  /** The connection is reset with RST. */
  | "rst"
  /** The HTTP/2 stream is reset. */
  | "reset";

/** Effect that a fault has on this connection and on later connections after the answer. */
export interface ConnectionEffect {
  /** Close (FIN) or reset (RST) of the connection when its next request arrives. Null: the server answers that request. */
  readonly next: "fin" | "rst" | null;
  /** Number of later connections that are closed as soon as they open. */
  readonly refused: number;
}

/** Speed at which bytes are sent in small writes: bytes per write, and microseconds between writes. */
export interface BytePace {
  readonly bytes: number;
  readonly gapUs: number;
}

/**
 * One operation on the connection while an answer is sent. Bytes are sent as one segment, or as several if the operation has a
 * pace.
 */
export type WireOperation =
  | { readonly kind: "bytes"; readonly bytes: Uint8Array; readonly event: number; readonly pace: BytePace | null }
  | { readonly kind: "wait"; readonly us: number }
  /** Sends the HTTP/2 frame GOAWAY. `unserved`: true if its last stream id is below the stream of this answer. */
  | { readonly kind: "goaway"; readonly code: number; readonly unserved: boolean }
  /** Ends the answer. `code`: error code of a stream reset. */
  | { readonly kind: "end"; readonly how: AnswerEnding; readonly code?: number; readonly after: ConnectionEffect };

/** Head of an answer, which the stages may change. */
export interface AnswerHead {
  readonly version: string;
  readonly status: number;
  readonly reason: string;
  /** Header fields in the order in which they are sent. Content-Length and Transfer-Encoding say how the body is framed. */
  readonly fields: readonly (readonly [name: string, value: string])[];
}

/** Bytes of an answer that one stage passes to the next. */
export interface Part {
  readonly bytes: Uint8Array;
  /** Index of the event that contains the bytes. -1: the bytes belong to the head. */
  readonly event: number;
  /** Offset of the first byte in its event. -1: the bytes are HTTP framing, such as a chunk line. */
  readonly from: number;
  /** Number of the answer's events that are complete once these bytes are sent. */
  readonly completeEvents: number;
  /** True if the segment must end after these bytes. */
  readonly flush: boolean;
  readonly done: boolean;
  /** Speed at which the bytes are sent. Absent: all bytes are sent at once. */
  readonly pace?: BytePace;
}

/** Counts of an answer's events. At the end of the answer, `came` is the sum of the other three counts. */
export interface EventCounts {
  came: number;
  /** Number of events that a fault removed. */
  dropped: number;
  /** Number of events whose bytes were all handed to the connection. */
  whole: number;
  /** Number of events that were not sent, or only in part, because a fault ended the answer. */
  cut: number;
}

/** Receives the parts that the previous stage passes on. */
export interface PartReceiver {
  head(head: AnswerHead): void;
  part(part: Part): void;
  wait(us: number): void;
  finish(): void;
}
