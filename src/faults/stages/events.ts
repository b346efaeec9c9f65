/** First stage: drops, repeats, reorders or changes whole events. */
import { dialectOf, type EventJson, eventsIn, jsonOf, type StreamEvent, textIn } from "../plan/event.ts";
import type { FaultRun } from "../plan/fault-run.ts";
import type { AnswerDialect, EventCounts } from "../plan/types.ts";
import { EDITS } from "./edits.ts";

/** Data and functions that an edit can use. */
interface EditContext {
  readonly run: FaultRun;
  readonly dialect: AnswerDialect;
  /** Parsed JSON of the first event of the answer. */
  readonly first: EventJson;
  /**
   * `lastText`: text of the previous delta, "" before the first delta. The next field: JSON text of the event with that delta,
   * "{}" before the first delta.
   */
  readonly lastText: string;
  readonly lastData: string;
  /** Values that the edit stores at one event of the answer, to use at a later event. */
  readonly kept: Record<string, unknown>;
  /** Drops all later events of this answer, as after an error of the engine or a disconnect of the client. */
  stop(how: StopReason): void;
  /** Reserves `bytes` of the bytes that a plan may add to an answer. Returns false if fewer bytes are left. */
  room(bytes: number): boolean;
}

/** Ids of faults that need the previous event, so that this stage must see every event. */
const LOOK_BACK = ["E4", "J9"];
/** Ids of faults that change the end of an answer or tool calls, but never a plain piece of text. */
const NO_TEXT = ["E1", "E2", "E5", "J3", "J7", "J16"];

function nextEdit(run: FaultRun, event: number): number {
  const { id } = run;
  // As long as the fault may act, this stage must remember the text of each event.
  if (LOOK_BACK.includes(id)) return run.isOver ? Number.POSITIVE_INFINITY : event;
  const how = `${run.fault.values.how}`;
  const spares = NO_TEXT.includes(id) || (id === "J6" && how !== "empty") || (id === "J11" && how === "after");
  return spares ? Number.POSITIVE_INFINITY : run.nextDue(event);
}

type StopReason = "error" | "gone";

/** Returns the events that replace an event. Returns null if the fault cannot act on the event. */
export type Edit = (event: StreamEvent, editing: EditContext) => readonly StreamEvent[] | null;

export class EventStage {
  readonly #counts: EventCounts;
  readonly #runs: readonly FaultRun[];
  readonly #room: (bytes: number) => boolean;
  /** True if a fault of the plan needs the previous event. */
  readonly #looksBack: boolean;
  readonly #kept = new Map<FaultRun, Record<string, unknown>>();
  #dialect: AnswerDialect | null = null;
  #first: EventJson = {};
  #lastText = "";
  #lastData = "{}";
  stopped: StopReason | null = null;
  /** Events that a fault delays until the next event. */
  #late: StreamEvent[] = [];

  constructor(runs: readonly FaultRun[], counts: EventCounts, room: (bytes: number) => boolean) {
    this.#counts = counts;
    this.#room = room;
    this.#runs = runs.filter(({ id }) => id in EDITS);
    this.#looksBack = this.#runs.some(({ id }) => LOOK_BACK.includes(id));
  }

  /** Returns the events that replace those in `text`, which has one or several events. */
  take(text: string): readonly StreamEvent[] {
    const events = eventsIn(text, this.#counts.came);
    for (const { isOriginal } of events) if (isOriginal) this.#counts.came++;
    return this.#runs.length === 0 ? events : events.flatMap((event) => this.#event(event));
  }

  /** Returns the index of the first event, from `event` on, that a fault may change, if all events are plain pieces of text. */
  next(event: number): number {
    if (this.stopped !== null || this.#late.length > 0) return event;
    return Math.min(...this.#runs.map((run) => nextEdit(run, event)));
  }

  /** Counts an event that no fault of this stage changes. */
  skipped(): void {
    this.#counts.came++;
  }

  /** Returns the delayed events when no further event follows. */
  finish(): StreamEvent[] {
    const late = this.#late;
    this.#late = [];
    return late;
  }

  #event(event: StreamEvent): readonly StreamEvent[] {
    if (!event.isOriginal) return [event];
    if (this.stopped !== null) {
      this.#counts.dropped++;
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
    for (const run of this.#runs) events = this.#editedAll(events, run);
    if (!events.some(({ isOriginal }) => isOriginal) && !this.#late.some(({ isOriginal }) => isOriginal))
      this.#counts.dropped++;
    if (this.#looksBack) this.#remember(event);
    return late.length === 0 ? events : [...events, ...late];
  }

  #editedAll(events: readonly StreamEvent[], run: FaultRun): readonly StreamEvent[] {
    const [first] = events;
    if (events.length === 1 && first!.isOriginal) return this.#edited(first!, run);
    return events.flatMap((event) => (event.isOriginal ? this.#edited(event, run) : [event]));
  }

  #remember(event: StreamEvent): void {
    const text = textIn(jsonOf(event))?.text;
    if (text !== undefined) [this.#lastText, this.#lastData] = [text, event.data!];
  }

  #edited(event: StreamEvent, run: FaultRun): readonly StreamEvent[] {
    const dialect = this.#dialect;
    if (dialect === null || !run.fault.row.dialects.includes(dialect)) return [event];
    if (!run.due(event.index, event.done) && !removesReason(run)) return [event];
    const kept = this.#kept.get(run) ?? {};
    this.#kept.set(run, kept);
    const stop = (how: StopReason) => {
      this.stopped = how;
    };
    const edited = EDITS[run.id]!(event, {
      run,
      dialect,
      first: this.#first,
      lastText: this.#lastText,
      lastData: this.#lastData,
      kept,
      stop,
      room: this.#room,
    });
    if (edited === null) return [event];
    run.fired++;
    if (kept.late) {
      this.#late.push(...(kept.late as StreamEvent[]));
      kept.late = undefined;
    }
    return edited;
  }
}

/** Reports whether the fault also removes the finish reason before the last event. Only the variant E1,bare does. */
const removesReason = ({ id, fault }: FaultRun): boolean => id === "E1" && fault.values.how === "bare";
