/** What is a fault, a plan, and what comes out of it? Types only. */

/** In the order in which they work. */
export const STAGES = ["events", "text", "coding", "http", "segments", "end"] as const;
/** `instead`: the answer is another one; `grpc`: of a call; `client`: a client's act. */
export type FaultStage = (typeof STAGES)[number] | "instead" | "grpc" | "client";

export const ANSWER_DIALECTS = ["chat", "completions", "messages", "responses", "generate"] as const;
export type AnswerDialect = (typeof ANSWER_DIALECTS)[number];

/** What brings the answer. */
export type FaultCarrier = "1.1" | "2" | "grpc";

export type PositionKind = "head" | "event" | "byte" | "done" | "every" | "drawn" | "chance";

/** Where a fault acts. */
export interface Position {
  readonly kind: PositionKind;
  /** The event or byte from 0, the number below which an event is drawn, or the chance. */
  readonly at: number;
  /** Byte inside the event, or the head; null: before it. */
  readonly offset: number | null;
  /** Acts on so many events in a row. */
  readonly count: number;
}

/** One parameter of a fault. Words are taken as they stand; times are microseconds, sizes bytes. */
export type FaultParameter =
  | { readonly name: string; readonly type: "word"; readonly words: readonly string[] }
  | {
      readonly name: string;
      readonly type: "time" | "size" | "count";
      readonly default: number;
      readonly least: number;
      readonly most: number;
    };

/** What a fault writes, and how `stress` judges a client that reads it. */
export interface FaultRule {
  /** What is on the wire: a noun phrase, which stands alone in tables. */
  readonly what: string;
  /** What a correct client does. */
  readonly oracle: string;
  /** The text that says so. "our rule": no text does, and we judge by a rule of ours. "policy": nobody is judged. */
  readonly text: string;
  /**
   * "policy": any behaviour but a crash is right. "either": the text, or an error. null: what a correct reader makes of the
   * bytes, which is the text or an error.
   */
  readonly allows: "either" | "policy" | null;
}

/** One kind of fault. Its rule holds for each way that has none of its own. */
export interface FaultRow extends FaultRule {
  /** As in the list of faults; stable. */
  readonly id: string;
  readonly stage: FaultStage;
  /** The fault's ways, by a word of its first parameter of words, with the parts of the rule that differ. */
  readonly ways: Readonly<Record<string, Partial<FaultRule>>>;
  readonly parameters: readonly FaultParameter[];
  readonly positions: readonly PositionKind[];
  /** Whether a byte inside an event can be named. */
  readonly inside: boolean;
  /** The position where none is named. */
  readonly position: string;
  readonly dialects: readonly AnswerDialect[];
  /** Reaches connections and other requests too. */
  readonly reaches: "answer" | "others";
  /** Where it can be; elsewhere it does nothing. */
  readonly http: "any" | "1.1" | "2" | "grpc";
  /** A plan has one at most of those that name the same here; "": any. */
  readonly excludes: string;
}

export interface PlannedFault {
  readonly row: FaultRow;
  readonly position: Position;
  readonly values: Readonly<Record<string, string | number>>;
  /** As the plan has it, with its position. */
  readonly text: string;
}

export interface Plan {
  readonly faults: readonly PlannedFault[];
  readonly seed: number;
  /** In place of the request's own key; null: that one. */
  readonly key: string | null;
}

/** How an answer ends. */
export type AnswerEnding =
  /** As ever. */
  | "done"
  /** The connection is closed. */
  | "fin"
  /** The connection is reset. */
  | "rst"
  /** The stream is, in HTTP/2. */
  | "reset";

/** What becomes of the connection, or of others, behind the answer. */
export interface Aftermath {
  /** The connection ends as its next request comes. */
  readonly next: "fin" | "rst" | null;
  /** So many connections are closed as they are opened. */
  readonly refused: number;
}

/** Bytes leave in writes of so many, so long apart. */
export interface BytePace {
  readonly bytes: number;
  readonly gapUs: number;
}

/** What is done, one after the other. Bytes are one segment, or several with a pace. */
export type WireOperation =
  | { readonly kind: "bytes"; readonly bytes: Uint8Array; readonly event: number; readonly pace: BytePace | null }
  | { readonly kind: "wait"; readonly us: number }
  /** GOAWAY, in HTTP/2; `unserved`: this answer's stream is none of those that it says are served. */
  | { readonly kind: "goaway"; readonly code: number; readonly unserved: boolean }
  /** `code`: what a reset of the stream says. */
  | { readonly kind: "end"; readonly how: AnswerEnding; readonly code?: number; readonly after: Aftermath };

/** The head of an answer, as the stages change it. */
export interface AnswerHead {
  readonly version: string;
  readonly status: number;
  readonly reason: string;
  /** In their order; those of length and chunks say how the body is framed. */
  readonly fields: readonly (readonly [name: string, value: string])[];
}

/** Bytes on their way down the stages. */
export interface Part {
  readonly bytes: Uint8Array;
  /** Index of their event; -1: the head. */
  readonly event: number;
  /** Byte of the event at which they begin; -1: what HTTP puts around it. */
  readonly from: number;
  /** Events of the answer that are complete with these bytes. */
  readonly owns: number;
  /** A segment ends behind them. */
  readonly flush: boolean;
  readonly done: boolean;
  /** Absent: all at once. */
  readonly pace?: BytePace;
}

/** What became of the answer's events: each that came is one of the other three in the end. */
export interface Fates {
  came: number;
  /** Taken out, on purpose. */
  dropped: number;
  /** Written to the last byte. */
  whole: number;
  /** Behind the end, or through it. */
  cut: number;
}

/** What takes parts, one stage from another. */
export interface Downstream {
  head(head: AnswerHead): void;
  part(part: Part): void;
  wait(us: number): void;
  finish(): void;
}
