/** Types of faults, plans and the operations that they result in. */

/** Stages of the pipeline, in the order in which they run. */
export const STAGES = ["events", "text", "coding", "http", "segments", "end"] as const;
/** `instead` replaces the answer, `grpc` only acts on gRPC calls, `client` is an act of a client. */
export type FaultStage = (typeof STAGES)[number] | "instead" | "grpc" | "client";

export const ANSWER_DIALECTS = ["chat", "completions", "messages", "responses", "generate"] as const;
export type AnswerDialect = (typeof ANSWER_DIALECTS)[number];

/** Protocol that carries the answer: HTTP version, or gRPC. */
export type FaultCarrier = "1.1" | "2" | "grpc";

export type PositionKind = "head" | "event" | "byte" | "done" | "every" | "drawn" | "chance";

/** Position at which a fault acts. */
export interface Position {
  readonly kind: PositionKind;
  /** Index of the event or byte; or the number of events among which one is drawn; or the chance. */
  readonly at: number;
  /** Byte inside the event or the head. null: before it. */
  readonly offset: number | null;
  /** Number of consecutive events on which the fault acts. */
  readonly count: number;
}

/** Parameter of a fault. Words are literal, times are microseconds, sizes are bytes. */
export type FaultParameter =
  | { readonly name: string; readonly type: "word"; readonly words: readonly string[] }
  | {
      readonly name: string;
      readonly type: "time" | "size" | "count";
      readonly default: number;
      readonly least: number;
      readonly most: number;
    };

/** Defines the bytes that a fault writes, and the judgement of `stress` on a client that reads them. */
export interface FaultRule {
  /** Effect on the wire, as a noun phrase that stands alone in tables. */
  readonly what: string;
  /** The behaviour of a correct client. */
  readonly oracle: string;
  /** Source of the rule. "our rule": no specification says, and we judge by a rule of our own. "policy": no client is judged. */
  readonly text: string;
  /** "policy": any behaviour without a crash is right. "either": the text or an error is right. null: a correct reader of the bytes decides. */
  readonly allows: "either" | "policy" | null;
}

/** One kind of fault. Its rule applies to each way without a rule of its own. */
export interface FaultRow extends FaultRule {
  /** Stable id, as in the list of faults. */
  readonly id: string;
  readonly stage: FaultStage;
  /** The fault's ways, by word of its first word parameter. Each has the parts of the rule that differ. */
  readonly ways: Readonly<Record<string, Partial<FaultRule>>>;
  readonly parameters: readonly FaultParameter[];
  readonly positions: readonly PositionKind[];
  /** True if a plan may name a byte inside an event. */
  readonly inside: boolean;
  /** Default position. */
  readonly position: string;
  readonly dialects: readonly AnswerDialect[];
  /** "others" if it also affects connections or other requests. */
  readonly reaches: "answer" | "others";
  /** Carriers on which the fault acts. On others it does nothing. */
  readonly http: "any" | "1.1" | "2" | "grpc";
  /** A plan may have only one fault of each group. "" means no group. */
  readonly excludes: string;
}

export interface PlannedFault {
  readonly row: FaultRow;
  readonly position: Position;
  readonly values: Readonly<Record<string, string | number>>;
  /** Text of the fault as in the plan, including its position. */
  readonly text: string;
}

export interface Plan {
  readonly faults: readonly PlannedFault[];
  readonly seed: number;
  /** Replaces the request's key. null: the request's key is used. */
  readonly key: string | null;
}

/** The end of an answer: a regular one, or an early end of its connection or stream. */
export type AnswerEnding =
  /** Regular end. */
  | "done"
  /** The connection is closed with FIN. */
  | "fin"
  /** The connection is reset with RST. */
  | "rst"
  /** The HTTP/2 stream is reset. */
  | "reset";

/** Effect on the connection, and on other connections, after the answer. */
export interface ConnectionEffect {
  /** End of the connection when its next request arrives. Null: it stays open. */
  readonly next: "fin" | "rst" | null;
  /** Number of following connections that are closed when they open. */
  readonly refused: number;
}

/** Sends bytes in small writes: bytes per write, and microseconds between writes. */
export interface BytePace {
  readonly bytes: number;
  readonly gapUs: number;
}

/** One step of sending an answer. Bytes are one segment, or several if there is a pace. */
export type WireOperation =
  | { readonly kind: "bytes"; readonly bytes: Uint8Array; readonly event: number; readonly pace: BytePace | null }
  | { readonly kind: "wait"; readonly us: number }
  /** HTTP/2 GOAWAY. `unserved`: its last stream id excludes this answer's stream. */
  | { readonly kind: "goaway"; readonly code: number; readonly unserved: boolean }
  /** `code`: error code of a stream reset. */
  | { readonly kind: "end"; readonly how: AnswerEnding; readonly code?: number; readonly after: ConnectionEffect };

/** Head of an answer, which the stages may change. */
export interface AnswerHead {
  readonly version: string;
  readonly status: number;
  readonly reason: string;
  /** In order. Content-Length and Transfer-Encoding tell how the body is framed. */
  readonly fields: readonly (readonly [name: string, value: string])[];
}

/** Bytes on their way through the stages. */
export interface Part {
  readonly bytes: Uint8Array;
  /** Index of the event. -1: the head. */
  readonly event: number;
  /** Offset of the first byte in its event. -1: framing bytes of HTTP. */
  readonly from: number;
  /** Number of the answer's events that are complete with these bytes. */
  readonly completeEvents: number;
  /** True if a segment ends after these bytes. */
  readonly flush: boolean;
  readonly done: boolean;
  /** Absent: all bytes at once. */
  readonly pace?: BytePace;
}

/** Counts of an answer's events. At the end, `came` is the sum of the other three. */
export interface EventCounts {
  came: number;
  /** Removed by a fault. */
  dropped: number;
  /** Handed to the connection with all bytes. */
  whole: number;
  /** After the point at which a fault ended the answer, or across it. */
  cut: number;
}

/** Receives the parts of the stage before. */
export interface PartReceiver {
  head(head: AnswerHead): void;
  part(part: Part): void;
  wait(us: number): void;
  finish(): void;
}
