/** A planned fault while it acts on one answer. Decides at which events the fault acts, and counts how often it acted. */
import type { FaultDraws } from "./draws.ts";
import type { PlannedFault } from "./types.ts";

/** First number of the draws that decide where a fault acts. Draws with smaller numbers decide what the fault does there. */
const PLACES = 0x40000000;
/** Number of events for which one call of `nextDue` draws whether the fault acts there. */
const CHANCES = 64;

export class FaultRun {
  /** Number of times that the fault has acted on this answer. */
  fired = 0;
  readonly #drawnAt: number;

  constructor(
    readonly fault: PlannedFault,
    /** Index of the fault in the plan. */
    readonly place: number,
    readonly draws: FaultDraws,
  ) {
    const { kind, at } = fault.position;
    this.#drawnAt = kind === "drawn" ? draws.below(place, PLACES, at) : 0;
  }

  get id(): string {
    return this.fault.row.id;
  }

  word(name = "how"): string {
    return this.fault.values[name] as string;
  }

  number(name: string): number {
    return this.fault.values[name] as number;
  }

  below(n: number, end: number): number {
    return this.draws.below(this.place, n, end);
  }

  /**
   * Returns true if the fault should act at this event. A fault that cannot act on the event waits for the next event on which
   * it can.
   */
  due(event: number, done: boolean): boolean {
    const { kind, at, count } = this.fault.position;
    switch (kind) {
      case "head":
        return this.fired === 0;
      case "event":
        return event >= at && this.fired < count;
      case "drawn":
        return event >= this.#drawnAt && this.fired < count;
      case "done":
        return done && this.fired < count;
      case "every":
        return true;
      case "chance":
        return this.draws.fraction(this.place, PLACES + 1 + event) < at;
      case "byte":
        return false;
    }
  }

  /** True if the fault has acted as many times as the plan orders. */
  get isOver(): boolean {
    const { kind, count } = this.fault.position;
    return (kind === "head" && this.fired > 0) || ((kind === "event" || kind === "drawn") && this.fired >= count);
  }

  /** Returns the index of the first event, from `event` on, at which the fault may act. Ignores the last event of the stream. */
  nextDue(event: number): number {
    const { kind, at, count } = this.fault.position;
    switch (kind) {
      case "head":
        return this.fired === 0 ? event : Number.POSITIVE_INFINITY;
      case "event":
      case "drawn":
        return this.fired < count ? Math.max(event, kind === "event" ? at : this.#drawnAt) : Number.POSITIVE_INFINITY;
      case "every":
        return event;
      case "chance":
        for (let next = event; next < event + CHANCES; next++) if (this.due(next, false)) return next;
        return event + CHANCES;
      case "done":
      case "byte":
        return Number.POSITIVE_INFINITY;
    }
  }

  /** Returns the offset of the byte at which the fault acts in an event of `length` bytes. */
  offset(event: number, length: number): number {
    return this.fault.position.offset ?? 1 + this.below(event, Math.max(1, length - 1));
  }
}
