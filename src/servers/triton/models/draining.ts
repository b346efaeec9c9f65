/** Waits until the requests of models that have ended, or will end, are finished. */
import type { Clock } from "../../../base/clock.ts";

interface RequestCounter {
  /** Number of requests without a last response. */
  readonly live: number;
}

const SHORT_MS = 5;
const LOOK_US = 10_000;

export const liveOf = (models: Iterable<RequestCounter>): number =>
  [...models].reduce((all, { live }) => all + live, 0);

/** Counts the requests of model versions that are unloading or were replaced. */
export class Draining {
  readonly #all = new Set<RequestCounter>();

  constructor(private readonly sleep: (ms: number) => Promise<void>) {}

  get live(): number {
    return liveOf(this.#all);
  }

  /** Settles when no request of it is live. */
  async drained(model: RequestCounter): Promise<void> {
    this.#all.add(model);
    while (model.live > 0) await this.sleep(SHORT_MS);
    this.#all.delete(model);
  }
}

/** Resolves to true when no request is running, or to false at `untilUs`. */
export async function endsBy(
  untilUs: number,
  server: RequestCounter,
  clock: Pick<Clock, "now" | "at">,
): Promise<boolean> {
  while (server.live > 0) {
    const leftUs = untilUs - clock.now();
    if (leftUs <= 0) return false;
    const { promise, resolve } = Promise.withResolvers<void>();
    clock.at(clock.now() + Math.min(LOOK_US, leftUs), resolve);
    await promise;
  }
  return true;
}
