/**
 * Runs tasks in the order in which they were added, a limited number at the same time, so that waiting tasks take no memory for
 * their work.
 */
export class TaskLimiter {
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(private readonly most: number) {}

  get isFull(): boolean {
    return this.#running >= this.most;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.isFull) await new Promise<void>((go) => this.#waiting.push(go));
    else this.#running++;
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running--;
      else next();
    }
  }
}
