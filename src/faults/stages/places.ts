/** Where in a part does a fault's position lie? */
import type { Firing } from "../plan/firing.ts";
import type { Part } from "../plan/types.ts";

export class Places {
  /** Bytes of the body before the part. */
  #body = 0;
  #event = -2;
  readonly #inside = new Map<Firing, number>();

  /** The byte of the part; null: it is not in it. Asked once for each part, before `passed`. */
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

  /** Does the fault act on this part's event as a whole? Counts each event once. */
  covers(firing: Firing, part: Part): boolean {
    if (this.#inside.get(firing) === part.event) return true;
    const { kind } = firing.fault.position;
    if (kind === "head" ? part.event !== -1 : kind !== "every" && part.event < 0) return false;
    if (!firing.due(part.event, part.done)) return false;
    this.#inside.set(firing, part.event);
    firing.fired++;
    return true;
  }

  /** The first event from this one on in which the fault's position may lie. */
  next(firing: Firing, event: number): number {
    const { kind, count } = firing.fault.position;
    if (kind === "head") return Number.POSITIVE_INFINITY;
    return kind === "byte" && firing.fired < count ? event : firing.nextDue(event);
  }

  /** An event of so many bytes in which no position lies. */
  skipped(event: number, bytes: number): void {
    this.#event = event;
    this.#body += bytes;
  }

  passed(part: Part): void {
    this.#event = part.event;
    if (part.event >= 0 && part.from >= 0) this.#body += part.bytes.length;
  }

  /** 0 where an event, or the head, begins. */
  #start(part: Part): number | null {
    return part.event === this.#event ? null : 0;
  }
}

const within = (offset: number, { bytes }: Part): number | null =>
  offset >= 0 && offset < bytes.length ? offset : null;
