/**
 * Finds running requests by id, because a later request with `stop` names the request to cancel. An id is valid within one
 * model version.
 */
import type { ModelHost, ModelRequest } from "../behaviours/behaviour.ts";

type RequestName = Pick<ModelRequest, "id">;
type ModelVersionName = Pick<ModelHost, "name" | "version">;

/** Several requests may share an id. Requests without an id are not stored. */
export class RequestsById<T> {
  readonly #all = new Map<string, Set<T>>();

  add(request: RequestName, host: ModelVersionName, entry: T): void {
    if (request.id === "") return;
    const key = keyOf(request, host);
    this.#all.set(key, (this.#all.get(key) ?? new Set()).add(entry));
  }

  delete(request: RequestName, host: ModelVersionName, entry: T): void {
    const key = keyOf(request, host);
    const entries = this.#all.get(key);
    entries?.delete(entry);
    if (entries?.size === 0) this.#all.delete(key);
  }

  withId(request: RequestName, host: ModelVersionName): Iterable<T> {
    return this.#all.get(keyOf(request, host)) ?? [];
  }
}

const keyOf = ({ id }: RequestName, { name, version }: ModelVersionName) => `${name}/${version}/${id}`;
