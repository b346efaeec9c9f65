/**
 * Values that change while the server runs. Readers get a `LiveValue` and call `get()` at each use, so that no `readonly` field
 * holds an old value. The only writer keeps the `LiveCell`.
 */
export interface LiveValue<T> {
  get(): T;
}

export class LiveCell<T> implements LiveValue<T> {
  constructor(private value: T) {}

  get(): T {
    return this.value;
  }

  /** Holds from the next `get()` on. */
  set(value: T): void {
    this.value = value;
  }
}
