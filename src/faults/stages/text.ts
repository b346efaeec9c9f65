/**
 * Second stage: changes the text of an event, such as its line ends. From here on a text has one character per byte, so that
 * offsets count bytes.
 */
import type { StreamEvent } from "../plan/event.ts";
import type { FaultRun } from "../plan/fault-run.ts";
import type { PartReceiver } from "../plan/types.ts";

const MARK = "\xef\xbb\xbf";
const PING = ": ping\n\n";
/**
 * Bytes that each comment during a silence counts toward the limit of added bytes. More than its length, because the write and
 * the pause of a comment take memory too.
 */
const PING_BYTES = 1024;
const COMMENTS: Readonly<Record<string, string>> = { ping: PING, line: ":\n", block: ":\n\n" };
const FIELDS: Readonly<Record<string, string>> = {
  event: "event: message\n",
  id: "id: 42\n",
  retry: "retry: 3000\n",
  unknown: "x-unknown: 1\n",
  bare: "nothing\n",
};
const FILLER = 65_536;
/** Number of first bytes of an event's JSON among which the fault S15 cuts, unless the plan names a byte. */
const CUT_BEFORE = 40;

/** Event whose text the faults of this stage change. */
interface EventDraft {
  text: string;
  readonly event: StreamEvent;
  readonly stage: TextStage;
}

/** Changes the text of the event. Returns false if the fault cannot act on the event. */
type TextEdit = (draft: EventDraft, run: FaultRun) => unknown;

export class TextStage {
  readonly #runs: readonly FaultRun[];
  readonly #down: PartReceiver;
  readonly #room: (bytes: number) => boolean;
  #endless = false;
  #line = 0;

  /** `room`: returns true if the plan may still add this many bytes. */
  constructor(runs: readonly FaultRun[], down: PartReceiver, room: (bytes: number) => boolean) {
    this.#runs = runs.filter(({ id }) => id in WRITES).toSorted((a, b) => ORDER.indexOf(a.id) - ORDER.indexOf(b.id));
    this.#down = down;
    this.#room = room;
  }

  take(event: StreamEvent): void {
    const { index, isOriginal, done } = event;
    if (!this.#endless && !this.#runs.some((run) => run.due(index, done))) {
      this.#send(Buffer.from(event.text), index, isOriginal ? 1 : 0, done);
      return;
    }
    const draft: EventDraft = { text: bytesAsText(event.text), event, stage: this };
    for (const run of this.#runs) if (run.due(index, done) && WRITES[run.id]!(draft, run) !== false) run.fired++;
    if (this.#endless) draft.text = draft.text.replace(/[\r\n]/g, "");
    this.#send(Buffer.from(draft.text, "latin1"), index, isOriginal ? 1 : 0, done);
  }

  /** Returns the index of the first event, from `event` on, that a fault may change. Ignores faults of the head. */
  next(event: number): number {
    if (this.#endless) return event;
    return Math.min(...this.#runs.map((run) => run.nextDue(event)));
  }

  room(bytes: number): boolean {
    return this.#room(bytes);
  }

  /** Sends bytes that belong to none of the answer's events. */
  extra(text: string, { index }: StreamEvent): void {
    this.#send(Buffer.from(text, "latin1"), index, 0, false);
  }

  /** Waits `us` microseconds before the event. `comments`: true to send a comment every `everyUs` microseconds meanwhile. */
  silence(us: number, everyUs: number, comments: boolean, event: StreamEvent): void {
    let left = us;
    for (; comments && left > 0 && this.#room(PING_BYTES); left -= everyUs) {
      this.#down.wait(Math.min(everyUs, left));
      this.extra(PING, event);
    }
    if (left > 0) this.#down.wait(left);
  }

  /** Removes the line ends of all later events, and sends `bytes` additional bytes. */
  endless(bytes: number, event: StreamEvent): void {
    this.#endless = true;
    for (let left = bytes; left > 0; left -= FILLER) this.extra("x".repeat(Math.min(FILLER, left)), event);
  }

  /** Returns the line end for the next line, for the fault that mixes different line ends. */
  nextEnd(): string {
    return ["\n", "\r", "\r\n"][this.#line++ % 3]!;
  }

  #send(bytes: Uint8Array, event: number, completeEvents: number, done: boolean): void {
    this.#down.part({ bytes, event, from: 0, completeEvents, flush: true, done });
  }
}

/** Returns a text with one character per byte of the UTF-8 of `text`. */
const bytesAsText = (text: string) => (NOT_ASCII.test(text) ? Buffer.from(text).toString("latin1") : text);
const NOT_ASCII = /[\u0080-\uffff]/;

const isData = ({ event }: EventDraft) => event.data !== null;
const isJson = ({ event }: EventDraft) => event.data?.startsWith("{") === true;
/** Returns the offset in `text` at which the value of the data line starts. */
const dataAt = (text: string) => text.indexOf("data:") + 6;

const WRITES: Readonly<Record<string, TextEdit>> = {
  T7: ({ event, stage }, run) =>
    stage.silence(run.number("for"), run.number("every"), run.word() === "comments", event),
  S5: ({ event, stage }, run) => stage.silence(run.number("for"), run.number("every"), true, event),
  S12(draft, run) {
    const more = run.number("bytes") - draft.text.length;
    const end = draft.text.lastIndexOf("}");
    if (!isJson(draft) || end === -1 || more <= 0 || !draft.stage.room(more)) return false;
    draft.text = draft.text.slice(0, end) + " ".repeat(more) + draft.text.slice(end);
  },
  S9(draft, run) {
    if (!isJson(draft)) return false;
    if (run.word() === "single") draft.text = draft.text.replace(/\n\n$/, "\n");
    // Break the line between two members of the JSON, where JSON allows white space.
    else draft.text = draft.text.replace(/,"(?=[a-z_]+":)/, ',\ndata: "');
  },
  S10(draft, run) {
    if (!isData(draft)) return false;
    const how = run.word();
    const fields = Object.entries(FIELDS).filter(([name]) => how === "all" || how === name);
    const text = fields.filter(([name]) => name !== "event" || draft.event.name === null).map(([, line]) => line);
    if (text.length === 0) return false;
    draft.text = text.join("") + draft.text;
  },
  S3(draft) {
    draft.text = draft.text.replace(/^(data|event|id|retry): /gm, "$1:");
  },
  S7(draft, run) {
    if (!isJson(draft)) return false;
    const offset = run.fault.position.offset ?? dataAt(draft.text) + 1 + run.below(draft.event.index, 40);
    if (offset >= draft.text.length - 2) return false;
    draft.text = draft.text.slice(0, offset) + PING + draft.text.slice(offset);
  },
  B9(draft, run) {
    if (!isJson(draft)) return false;
    const inText = draft.text.search(/"(content|text|delta|reasoning|thinking)":"/);
    const usual = inText === -1 ? dataAt(draft.text) + 2 : draft.text.indexOf(':"', inText) + 2;
    const offset = run.fault.position.offset ?? usual;
    if (offset >= draft.text.length) return false;
    draft.text = draft.text.slice(0, offset) + (run.word() === "ff" ? "\xff" : "\xe2\x82") + draft.text.slice(offset);
  },
  S15(draft, run) {
    if (!isJson(draft)) return false;
    const from = dataAt(draft.text) + 1;
    const offset = run.fault.position.offset ?? from + run.below(draft.event.index, CUT_BEFORE);
    if (offset < from || offset >= draft.text.length - 2) return false;
    draft.text = draft.text.slice(0, offset);
  },
  S16: ({ event, stage }) => stage.extra("event: ping\n\n", event),
  S6: ({ event, stage }, run) => stage.extra(run.word() === "colon" ? "data:\n\n" : "data\n\n", event),
  S8: ({ event, stage }) => stage.extra("data: : ping\n\n", event),
  S4(draft, run) {
    draft.text = COMMENTS[run.word()]! + draft.text;
  },
  S11(draft) {
    draft.text = draft.text.replace(/\n\n$/, "");
  },
  S1(draft) {
    draft.text = draft.text.replaceAll("\n", "\r\n");
  },
  S2(draft, run) {
    const mixed = run.word() === "mixed";
    draft.text = draft.text.replace(/\n/g, () => (mixed ? draft.stage.nextEnd() : "\r"));
  },
  B8(draft) {
    draft.text = MARK + draft.text;
  },
  S13(draft, run) {
    const bytes = run.number("bytes");
    if (!draft.stage.room(bytes)) return false;
    draft.stage.endless(bytes, draft.event);
  },
};

/** Ids of the faults in the order in which this stage applies them, which does not depend on the plan. */
const ORDER = Object.keys(WRITES);
