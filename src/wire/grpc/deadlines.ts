/**
 * Ends calls whose time is over. Many calls share one alarm: long times are kept a little coarser, by less than a hundredth.
 * Thousands of calls whose time is over at once end in several turns of the event loop.
 */
import type { Clock } from "../../base/clock.ts";
import type { Expiring } from "../http/deadlines.ts";

const LEAST_US = 2000;
/** Calls end for so long in one turn of the event loop. */
const PIECE_US = 1000;
const STEPS = 128;
const UNITS: Readonly<Record<string, number>> = { H: 3600e6, M: 60e6, S: 1e6, m: 1000, u: 1, n: 0.001 };

const DIGITS_MOST = 8;
const ZERO = "0".charCodeAt(0);

/** Microseconds of a `grpc-timeout`; null: it is none. Without an expression, which takes five times as long. */
export function timeoutUs(text: string): number | null {
  const digits = text.length - 1;
  const unit = UNITS[text.charAt(digits)];
  if (unit === undefined || digits < 1 || digits > DIGITS_MOST) return null;
  let value = 0;
  for (let at = 0; at < digits; at++) {
    const digit = text.charCodeAt(at) - ZERO;
    if (digit < 0 || digit > 9) return null;
    value = value * 10 + digit;
  }
  return value * unit;
}

export class CallDeadlines {
  readonly #clock: Pick<Clock, "now" | "at">;
  readonly #slots = new Map<number, Set<Expiring>>();

  constructor(clock: Pick<Clock, "now" | "at">) {
    this.#clock = clock;
  }

  /** Gives what takes it back. */
  watch(one: Expiring, us: number): () => void {
    const step = Math.max(LEAST_US, 2 ** Math.floor(Math.log2(Math.max(1, us) / STEPS)));
    const dueUs = Math.ceil((this.#clock.now() + us) / step) * step;
    let slot = this.#slots.get(dueUs);
    if (slot === undefined) {
      slot = new Set();
      this.#slots.set(dueUs, slot);
      this.#clock.at(dueUs, () => this.#ring(dueUs));
    }
    slot.add(one);
    const own = slot;
    return () => own.delete(one);
  }

  #ring(dueUs: number): void {
    const slot = this.#slots.get(dueUs)!;
    this.#slots.delete(dueUs);
    this.#expire(slot);
  }

  #expire(slot: Set<Expiring>): void {
    const untilUs = this.#clock.now() + PIECE_US;
    for (const one of slot) {
      slot.delete(one);
      one.expire();
      const nowUs = this.#clock.now();
      if (nowUs < untilUs) continue;
      if (slot.size > 0) this.#clock.at(nowUs, () => this.#expire(slot));
      return;
    }
  }
}
