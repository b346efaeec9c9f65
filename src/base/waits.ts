/** Who is to be woken next? Times with what is to be called then, in their order. */

interface Wait {
  readonly dueUs: number;
  wake: (() => void) | null;
}

export class Waits {
  readonly #all: Wait[] = [];

  /** Gives what takes it back. */
  add(dueUs: number, wake: () => void): () => void {
    const all = this.#all;
    const wait: Wait = { dueUs, wake };
    let at = all.length;
    while (at > 0 && all[at - 1]!.dueUs > dueUs) at--;
    if (at === all.length) all.push(wait);
    else all.splice(at, 0, wait);
    return () => {
      wait.wake = null;
    };
  }

  /** When the first is due; Infinity: there is none. */
  get dueUs(): number {
    const all = this.#all;
    while (all.length > 0 && all[0]!.wake === null) all.shift();
    return all.length > 0 ? all[0]!.dueUs : Number.POSITIVE_INFINITY;
  }

  /** Wakes the first, if it is still wanted. */
  wakeFirst(): void {
    this.#all.shift()?.wake?.();
  }

  clear(): void {
    this.#all.length = 0;
  }
}
