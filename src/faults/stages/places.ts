/** Finds the position of a fault in the parts of an answer. */
import type { FaultRun } from "../plan/fault-run.ts";
import type { Part } from "../plan/types.ts";

export class PositionFinder {
  /** Number of bytes of the body before the current part. */
  #body = 0;
  #event = -2;
  readonly #inside = new Map<FaultRun, number>();

  /**
   * Returns the byte of the part at which the fault acts, or null if the fault acts elsewhere. Call it once per part, before
   * `passed`.
   */
  at(run: FaultRun, part: Part): number | null {
    const { kind, at, offset, count } = run.fault.position;
    if (kind === "byte") return part.event >= 0 && part.from >= 0 ? within(at - this.#body, part) : null;
    if (kind === "head")
      return part.event !== -1 ? null : offset === null ? this.#start(part) : within(offset - part.from, part);
    if (part.event < 0) return null;
    if (offset === null) return this.#start(part) !== null && run.due(part.event, part.done) ? 0 : null;
    if (part.from < 0 || !run.due(part.event, part.done) || (kind === "event" && part.event >= at + count)) return null;
    return within(offset - part.from, part);
  }

  /** Returns true if the fault acts on the whole event of this part. Counts an event with several parts only once. */
  covers(run: FaultRun, part: Part): boolean {
    if (this.#inside.get(run) === part.event) return true;
    const { kind } = run.fault.position;
    if (kind === "head" ? part.event !== -1 : kind !== "every" && part.event < 0) return false;
    if (!run.due(part.event, part.done)) return false;
    this.#inside.set(run, part.event);
    run.fired++;
    return true;
  }

  /** Returns the index of the first event, from `event` on, that may contain the position of the fault. */
  next(run: FaultRun, event: number): number {
    const { kind, count } = run.fault.position;
    if (kind === "head") return Number.POSITIVE_INFINITY;
    return kind === "byte" && run.fired < count ? event : run.nextDue(event);
  }

  /** Counts an event of `bytes` bytes that contains the position of no fault. */
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
