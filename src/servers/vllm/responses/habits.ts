/** What does a server do with `/v1/responses` that is not vLLM's? Types only. */
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import type { LineError } from "../../pydantic/types.ts";
import type { PythonDict } from "../../pydantic/value.ts";
import type { responseBody } from "./items.ts";

/** Responses may be deleted, and none runs in the background. */
export interface ResponsesHabits {
  /** Looks at a body, and changes it, before its fields are checked. Throws `Refused`. */
  readonly rules: (body: PythonDict) => void;
  /** The answer to a body whose fields do not fit. */
  readonly wrong: (errors: readonly LineError[]) => ErrorAnswer;
  /** The body of a response. */
  readonly body: typeof responseBody;
  /** What is said of an id under which no response is kept. */
  readonly unknown: (id: string) => ErrorAnswer;
  /** An error as the server writes it. */
  readonly refused: (error: ErrorAnswer) => ErrorAnswer;
  /** Bytes of chance in the id of a response. */
  readonly idBytes: number;
}
