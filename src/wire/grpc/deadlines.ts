/**
 * Ends calls at their deadlines. Calls share timers: deadlines are rounded up by less than a hundredth of their time. If
 * thousands are due at once, they end in several turns of the event loop.
 */
import type { Clock } from "../../base/clock.ts";
import type { TimedItem } from "../http/deadlines.ts";

/** Smallest step to which due times are rounded up, in microseconds. */
const LEAST_US = 2000;
/** Longest time in one turn of the event loop that is spent on ending calls. */
const TURN_US = 1000;
/** The rounding step of a longer time is at most this fraction (1 / STEPS) of it. */
const STEPS = 128;
const UNITS: Readonly<Record<string, number>> = { H: 3600e6, M: 60e6, S: 1e6, m: 1000, u: 1, n: 0.001 };

const DIGITS_MOST = 8;
const ZERO = "0".charCodeAt(0);

/** Converts a `grpc-timeout` to microseconds. Returns null if it is malformed. A regular expression would take five times as long. */
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
  readonly #slots = new Map<number, Set<TimedItem>>();

  constructor(private readonly clock: Pick<Clock, "now" | "at">) {}

  /** Calls `expire` of the item after `us` microseconds. Returns a function that cancels it. */
  watch(item: TimedItem, us: number): () => void {
    const step = Math.max(LEAST_US, 2 ** Math.floor(Math.log2(Math.max(1, us) / STEPS)));
    const dueUs = Math.ceil((this.clock.now() + us) / step) * step;
    const slot = this.#slots.get(dueUs) ?? this.#newSlot(dueUs);
    slot.add(item);
    return () => slot.delete(item);
  }

  #newSlot(dueUs: number): Set<TimedItem> {
    const slot = new Set<TimedItem>();
    this.#slots.set(dueUs, slot);
    this.clock.at(dueUs, () => {
      this.#slots.delete(dueUs);
      this.#expire(slot);
    });
    return slot;
  }

  #expire(slot: Set<TimedItem>): void {
    const untilUs = this.clock.now() + TURN_US;
    for (const item of slot) {
      slot.delete(item);
      item.expire();
      const nowUs = this.clock.now();
      if (nowUs < untilUs) continue;
      if (slot.size > 0) this.clock.at(nowUs, () => this.#expire(slot));
      return;
    }
  }
}
