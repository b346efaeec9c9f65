/** Which requests run under which id? A later request with `stop` names one, of its own model and version. */
import type { ModelHost, ModelRequest } from "../behaviours/behaviour.ts";

type Asking = Pick<ModelRequest, "id">;
type Asked = Pick<ModelHost, "name" | "version">;

/** Several may share an id; one without an id cannot be named. */
export class RequestsById<T> {
  readonly #all = new Map<string, Set<T>>();

  add(request: Asking, host: Asked, one: T): void {
    if (request.id === "") return;
    const key = keyOf(request, host);
    this.#all.set(key, (this.#all.get(key) ?? new Set()).add(one));
  }

  delete(request: Asking, host: Asked, one: T): void {
    const key = keyOf(request, host);
    const mine = this.#all.get(key);
    mine?.delete(one);
    if (mine?.size === 0) this.#all.delete(key);
  }

  named(request: Asking, host: Asked): Iterable<T> {
    return this.#all.get(keyOf(request, host)) ?? [];
  }
}

const keyOf = ({ id }: Asking, { name, version }: Asked) => `${name}/${version}/${id}`;
