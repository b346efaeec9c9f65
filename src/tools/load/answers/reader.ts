/** The interface of the readers in this folder. Each interprets the JSON objects of one API's answers. */
import type { LooseObject } from "../../../base/json-object.ts";
import type { FailureClass } from "../requests/types.ts";
import type { Answer } from "./answer.ts";

/** A reader has no state, so one object serves all answers. */
export interface AnswerReader {
  /** True if `[DONE]` ends a stream. Other APIs end with an event of their own and ignore `[DONE]`. */
  readonly endsWithDone: boolean;
  /** Reads an event. Returns true if it is an ordinary token event, so that a pattern should be learned from it. */
  event(value: LooseObject, answer: Answer): boolean;
  /** Reads an answer that is one body. `text` is its JSON. */
  whole(value: LooseObject, text: string, answer: Answer): void;
  /** Returns why a stream with output, whose body ended normally, is not complete. Null if it is complete. */
  missingEnd(answer: Answer): Failure | null;
}

export interface Failure {
  readonly kind: FailureClass;
  readonly message: string;
}
