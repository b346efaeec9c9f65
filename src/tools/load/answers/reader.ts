/** The interface of the readers of `answers/`: each reads the JSON objects of one API's answers into an `Answer`. */
import type { LooseObject } from "../../../base/json-object.ts";
import type { FailureClass } from "../requests/types.ts";
import type { Answer } from "./answer.ts";

/** Has no state of its own: one reader serves all answers. */
export interface AnswerReader {
  /** True if `[DONE]` ends a stream. Other APIs end with an event of their own, and `[DONE]` is ignored. */
  readonly endsWithDone: boolean;
  /** Reads an event. Returns true if it is a plain token's event, so that events like it will follow. */
  event(value: LooseObject, answer: Answer): boolean;
  /** Reads an answer in one piece. `text` is its JSON. */
  whole(value: LooseObject, text: string, answer: Answer): void;
  /** Returns why a stream that has output and ended in order is not complete, or null if it is. */
  missingEnd(answer: Answer): Failure | null;
}

export interface Failure {
  readonly kind: FailureClass;
  readonly message: string;
}
