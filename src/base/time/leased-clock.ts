/** A clock that ends before the one that it is part of. After its end none of its callbacks is called. */
import type { Cancel, Clock } from "../clock.ts";

export class LeasedClock implements Clock {
  readonly #whole: Clock;
  #open = true;

  constructor(whole: Clock) {
    this.#whole = whole;
  }

  now(): number {
    return this.#whole.now();
  }

  at(dueUs: number, wake: () => void): Cancel {
    return this.#whole.at(dueUs, this.#whileOpen(wake));
  }

  about(dueUs: number, wake: () => void): Cancel {
    const act = this.#whileOpen(wake);
    return this.#whole.about?.(dueUs, act) ?? this.#whole.at(dueUs, act);
  }

  nextUs(): number {
    return this.#whole.nextUs();
  }

  catchUp(): void {
    this.#whole.catchUp?.();
  }

  turn(run: () => void): void {
    this.#whole.turn(this.#whileOpen(run));
  }

  soon(run: () => void): void {
    this.#whole.soon(this.#whileOpen(run));
  }

  close(): void {
    this.#open = false;
  }

  #whileOpen(act: () => void): () => void {
    return () => {
      if (this.#open) act();
    };
  }
}
