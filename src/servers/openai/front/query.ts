/**
 * Reads the parameters of a query as FastAPI does: the last value of a name counts, unknown names are ignored, and one answer
 * lists all errors.
 */

import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { FAIL, State, type Type } from "../../pydantic/types.ts";
import { validationErrors } from "../../pydantic/validate.ts";

export class Query {
  readonly #parameters: URLSearchParams;
  readonly #state = new State(true);

  constructor(url: string) {
    this.#parameters = new URL(url).searchParams;
  }

  /** Returns the value of a parameter. Returns `absent` if it is missing or wrong. */
  read<V, A>(name: string, type: Type<V>, absent: A): V | A {
    const text = this.#parameters.getAll(name).at(-1);
    if (text === undefined) return absent;
    const before = this.#state.count;
    const value = type.check(text, this.#state);
    this.#state.prefix(before, name);
    this.#state.prefix(before, "query");
    return value === FAIL ? absent : value;
  }

  /** Returns the 400 that lists the errors of all parameters read so far, or null if there are none. */
  wrong(): ErrorAnswer | null {
    const { errors } = this.#state;
    return errors === null || errors.length === 0 ? null : validationErrors(errors);
  }
}
