/** How long do requests run of what has ended, or is to end? */
import type { Clock } from "../../../base/clock.ts";

interface Live {
  /** Requests that have not had their last response. */
  readonly live: number;
}

const SHORT_MS = 5;
const LOOK_US = 10_000;

export const liveOf = (models: Iterable<Live>): number => [...models].reduce((all, { live }) => all + live, 0);

/** Versions that are unloading, or that another has replaced. */
export class Draining {
  readonly #all = new Set<Live>();
  readonly #sleep: (ms: number) => Promise<void>;

  constructor(sleep: (ms: number) => Promise<void>) {
    this.#sleep = sleep;
  }

  get live(): number {
    return liveOf(this.#all);
  }

  /** Settles when no request of it is live. */
  async drained(model: Live): Promise<void> {
    this.#all.add(model);
    while (model.live > 0) await this.#sleep(SHORT_MS);
    this.#all.delete(model);
  }
}

/** Whether no request is live any more before the time is over, or just then. */
export async function endsBy(untilUs: number, server: Live, clock: Pick<Clock, "now" | "at">): Promise<boolean> {
  while (server.live > 0) {
    const leftUs = untilUs - clock.now();
    if (leftUs <= 0) return false;
    const { promise, resolve } = Promise.withResolvers<void>();
    clock.at(clock.now() + Math.min(LOOK_US, leftUs), resolve);
    await promise;
  }
  return true;
}
