/** Finds a fault's position in the parts of an answer. */
import type { Firing } from "../plan/firing.ts";
import type { Part } from "../plan/types.ts";

export class PositionFinder {
  /** Bytes of the body before the part. */
  #body = 0;
  #event = -2;
  readonly #inside = new Map<Firing, number>();

  /** Returns the byte of the part at which the fault acts, or null. Called once per part, before `passed`. */
  at(firing: Firing, part: Part): number | null {
    const { kind, at, offset, count } = firing.fault.position;
    if (kind === "byte") return part.event >= 0 && part.from >= 0 ? within(at - this.#body, part) : null;
    if (kind === "head")
      return part.event !== -1 ? null : offset === null ? this.#start(part) : within(offset - part.from, part);
    if (part.event < 0) return null;
    if (offset === null) return this.#start(part) !== null && firing.due(part.event, part.done) ? 0 : null;
    if (part.from < 0 || !firing.due(part.event, part.done) || (kind === "event" && part.event >= at + count))
      return null;
    return within(offset - part.from, part);
  }

  /** Returns true if the fault acts on this part's whole event. Counts each event once. */
  covers(firing: Firing, part: Part): boolean {
    if (this.#inside.get(firing) === part.event) return true;
    const { kind } = firing.fault.position;
    if (kind === "head" ? part.event !== -1 : kind !== "every" && part.event < 0) return false;
    if (!firing.due(part.event, part.done)) return false;
    this.#inside.set(firing, part.event);
    firing.fired++;
    return true;
  }

  /** Returns the first event from this index on that may contain the fault's position. */
  next(firing: Firing, event: number): number {
    const { kind, count } = firing.fault.position;
    if (kind === "head") return Number.POSITIVE_INFINITY;
    return kind === "byte" && firing.fired < count ? event : firing.nextDue(event);
  }

  /** Counts an event of `bytes` bytes that contains no position. */
  skipped(event: number, bytes: number): void {
    this.#event = event;
    this.#body += bytes;
  }

  passed(part: Part): void {
    this.#event = part.event;
    if (part.event >= 0 && part.from >= 0) this.#body += part.bytes.length;
  }

  /** Returns 0 if an event or the head starts with this part, else null. */
  #start(part: Part): number | null {
    return part.event === this.#event ? null : 0;
  }
}

const within = (offset: number, { bytes }: Part): number | null =>
  offset >= 0 && offset < bytes.length ? offset : null;
