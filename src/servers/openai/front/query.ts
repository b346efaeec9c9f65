/** What does a request's query say? As FastAPI reads it: the last one of a name counts, unknown names do not; all errors in one answer. */

import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { FAIL, State, type Type } from "../../pydantic/types.ts";
import { validationErrors } from "../../pydantic/validate.ts";

export class Query {
  readonly #given: URLSearchParams;
  readonly #state = new State(true);

  constructor(url: string) {
    this.#given = new URL(url).searchParams;
  }

  /** The parameter's value; `absent` where it is not given, or wrong. */
  read<V, A>(name: string, type: Type<V>, absent: A): V | A {
    const text = this.#given.getAll(name).at(-1);
    if (text === undefined) return absent;
    const before = this.#state.count;
    const value = type.check(text, this.#state);
    this.#state.prefix(before, name);
    this.#state.prefix(before, "query");
    return value === FAIL ? absent : value;
  }

  /** The 400 that names everything wrong so far. */
  wrong(): ErrorAnswer | null {
    const { errors } = this.#state;
    return errors === null || errors.length === 0 ? null : validationErrors(errors);
  }
}
