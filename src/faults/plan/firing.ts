/** Does a fault act here? Counts how often it did. */
import type { FaultDraws } from "./draws.ts";
import type { PlannedFault } from "./types.ts";

/** FaultDraws that decide about places, apart from those that decide what is done there. */
const PLACES = 0x40000000;
/** Events whose chances are looked at ahead. */
const CHANCES = 64;

export class Firing {
  readonly fault: PlannedFault;
  /** In the plan, from 0. */
  readonly place: number;
  readonly draws: FaultDraws;
  /** How often it acted. */
  fired = 0;
  readonly #drawnAt: number;

  constructor(fault: PlannedFault, place: number, draws: FaultDraws) {
    this.fault = fault;
    this.place = place;
    this.draws = draws;
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

  /** Is it this fault's turn at the event? One that does not fit there waits for the next that does. */
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

  /** Whether it has acted as often as it is to. */
  get isOver(): boolean {
    const { kind, count } = this.fault.position;
    return (kind === "head" && this.fired > 0) || ((kind === "event" || kind === "drawn") && this.fired >= count);
  }

  /** The first event from this one on, not the last of all, at which it may be due. */
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

  /** The byte of the event at which it acts; `length` of its bytes. */
  offset(event: number, length: number): number {
    return this.fault.position.offset ?? 1 + this.below(event, Math.max(1, length - 1));
  }
}
