/**
 * A value that changes while the server runs. Readers receive a `LiveValue` and call `get()` at each use, so that no `readonly`
 * field holds an old value. Only the owner of the `LiveCell` can change the value.
 */
export interface LiveValue<T> {
  get(): T;
}

export class LiveCell<T> implements LiveValue<T> {
  constructor(private value: T) {}

  get(): T {
    return this.value;
  }

  /** Sets the value that `get()` returns from now on. */
  set(value: T): void {
    this.value = value;
  }
}
