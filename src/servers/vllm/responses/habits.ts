/** Declares the differences of another server's Responses API from vLLM's. */
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import type { LineError } from "../../pydantic/types.ts";
import type { PythonDict } from "../../pydantic/value.ts";
import type { responseBody } from "./items.ts";

/** Differences of another server. With them responses can be deleted, and none runs in the background. */
export interface ResponsesHabits {
  /** Checks a body before its fields, and may change it. Throws `RefusedRequest`. */
  readonly rules: (body: PythonDict) => void;
  /** Returns the answer to a body with errors in its fields. */
  readonly wrong: (errors: readonly LineError[]) => ErrorAnswer;
  /** Writes the body of a response. */
  readonly body: typeof responseBody;
  /** Returns the error for an ID of no stored response. */
  readonly unknown: (id: string) => ErrorAnswer;
  /** Converts an error to the server's form. */
  readonly refused: (error: ErrorAnswer) => ErrorAnswer;
  /** Random bytes in the ID of a response. */
  readonly idBytes: number;
}
