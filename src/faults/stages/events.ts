/** First stage: events are dropped, doubled, reordered, or say something else. */
import { dialectOf, type EventJson, eventsIn, jsonOf, type StreamEvent, textIn } from "../plan/event.ts";
import type { Firing } from "../plan/firing.ts";
import type { AnswerDialect, Fates } from "../plan/types.ts";
import { EDITS } from "./edits.ts";

/** What an edit may know and keep. */
export interface Editing {
  readonly firing: Firing;
  readonly dialect: AnswerDialect;
  /** The parsed JSON of the answer's first event. */
  readonly first: EventJson;
  /** Text of the previous delta, and the JSON text of its event; "" and "{}" before the first delta. */
  readonly lastText: string;
  readonly lastData: string;
  /** The edit's own, for the answer. */
  readonly kept: Record<string, unknown>;
  /** Has all later events of this answer dropped, as if the engine had failed or the client had left. */
  stop(how: StoppedBy): void;
  /** Reserves bytes that a plan may add to an answer. Returns false if too few are left. */
  room(bytes: number): boolean;
}

/** These know the events before: each is looked at. */
const LOOK_BACK = ["E4", "J9"];
/** These change ends of answers and calls of tools, never a piece of text. */
const NO_TEXT = ["E1", "E2", "E5", "J3", "J7", "J16"];

function nextEdit(firing: Firing, event: number): number {
  const { id } = firing;
  // As long as it may act, what came before it is kept.
  if (LOOK_BACK.includes(id)) return firing.isOver ? Number.POSITIVE_INFINITY : event;
  const how = `${firing.fault.values.how}`;
  const spares = NO_TEXT.includes(id) || (id === "J6" && how !== "empty") || (id === "J11" && how === "after");
  return spares ? Number.POSITIVE_INFINITY : firing.nextDue(event);
}

export type StoppedBy = "error" | "gone";

/** What becomes of an event; null: the fault does not fit it. */
export type Edit = (event: StreamEvent, editing: Editing) => readonly StreamEvent[] | null;

export class EventStage {
  readonly #fates: Fates;
  readonly #firings: readonly Firing[];
  readonly #room: (bytes: number) => boolean;
  /** A fault wants to know what came before. */
  readonly #looksBack: boolean;
  readonly #kept = new Map<Firing, Record<string, unknown>>();
  #dialect: AnswerDialect | null = null;
  #first: EventJson = {};
  #lastText = "";
  #lastData = "{}";
  stopped: StoppedBy | null = null;
  /** What a fault holds back until the next event. */
  #late: StreamEvent[] = [];

  constructor(firings: readonly Firing[], fates: Fates, room: (bytes: number) => boolean) {
    this.#fates = fates;
    this.#room = room;
    this.#firings = firings.filter(({ id }) => id in EDITS);
    this.#looksBack = this.#firings.some(({ id }) => LOOK_BACK.includes(id));
  }

  /** The events that leave for a text of one or several. */
  take(text: string): readonly StreamEvent[] {
    const events = eventsIn(text, this.#fates.came);
    if (events.length === 1 && events[0]!.own && this.#firings.length > 0) {
      this.#fates.came++;
      return this.#event(events[0]!);
    }
    if (this.#firings.length === 0) {
      for (const { own } of events) if (own) this.#fates.came++;
      return events;
    }
    const out: StreamEvent[] = [];
    for (const event of events) {
      if (event.own) this.#fates.came++;
      out.push(...this.#event(event));
    }
    return out;
  }

  /** The first event from this one on, among plain pieces of text, that a fault may change. */
  next(event: number): number {
    if (this.stopped !== null || this.#late.length > 0) return event;
    let next = Number.POSITIVE_INFINITY;
    for (const firing of this.#firings) next = Math.min(next, nextEdit(firing, event));
    return next;
  }

  /** An event that no fault changes. */
  skipped(): void {
    this.#fates.came++;
  }

  /** What is still held back. */
  finish(): StreamEvent[] {
    const late = this.#late;
    this.#late = [];
    return late;
  }

  #event(event: StreamEvent): readonly StreamEvent[] {
    if (!event.own) return [event];
    if (this.stopped !== null) {
      this.#fates.dropped++;
      return [];
    }
    if (this.#dialect === null) {
      const json = jsonOf(event);
      this.#first = json ?? {};
      this.#dialect = dialectOf(json);
    }
    const late = this.#late;
    this.#late = [];
    let events: readonly StreamEvent[] = [event];
    for (const firing of this.#firings) events = this.#editedAll(events, firing);
    if (!events.some(({ own }) => own) && !this.#late.some(({ own }) => own)) this.#fates.dropped++;
    if (this.#looksBack) this.#remember(event);
    return late.length === 0 ? events : [...events, ...late];
  }

  #editedAll(events: readonly StreamEvent[], firing: Firing): readonly StreamEvent[] {
    const [first] = events;
    if (events.length === 1 && first!.own) return this.#edited(first!, firing);
    return events.flatMap((one) => (one.own ? this.#edited(one, firing) : [one]));
  }

  #remember(event: StreamEvent): void {
    const text = textIn(jsonOf(event))?.text;
    if (text !== undefined) [this.#lastText, this.#lastData] = [text, event.data!];
  }

  #edited(event: StreamEvent, firing: Firing): readonly StreamEvent[] {
    const dialect = this.#dialect;
    if (dialect === null || !firing.fault.row.dialects.includes(dialect)) return [event];
    if (!firing.due(event.index, event.done) && !takesReason(firing)) return [event];
    const kept = this.#kept.get(firing) ?? {};
    this.#kept.set(firing, kept);
    const stop = (how: StoppedBy) => {
      this.stopped = how;
    };
    const edited = EDITS[firing.id]!(event, {
      firing,
      dialect,
      first: this.#first,
      lastText: this.#lastText,
      lastData: this.#lastData,
      kept,
      stop,
      room: this.#room,
    });
    if (edited === null) return [event];
    firing.fired++;
    if (kept.late) {
      this.#late.push(...(kept.late as StreamEvent[]));
      kept.late = undefined;
    }
    return edited;
  }
}

/** Without the last event and the finish reason, which stands before it. */
const takesReason = ({ id, fault }: Firing): boolean => id === "E1" && fault.values.how === "bare";
