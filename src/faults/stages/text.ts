/** Second stage: how an event is written. A character is a byte from here on, so that offsets are bytes. */
import type { StreamEvent } from "../plan/event.ts";
import type { Firing } from "../plan/firing.ts";
import type { Downstream } from "../plan/types.ts";

const MARK = "\xef\xbb\xbf";
const PING = ": ping\n\n";
/** A comment of a silence counts as so many bytes that a plan adds: each is a write, and a wait, which take memory too. */
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
/** S15 cuts an event within so many bytes of its JSON. */
const CUT_BEFORE = 40;

/** What an event has become so far, and where it goes. */
interface Writing {
  text: string;
  readonly event: StreamEvent;
  readonly stage: TextStage;
}

/** Changes the text; false: the fault does not fit. */
type Write = (writing: Writing, firing: Firing) => unknown;

export class TextStage {
  readonly #firings: readonly Firing[];
  readonly #down: Downstream;
  readonly #room: (bytes: number) => boolean;
  #endless = false;
  #line = 0;

  /** `room`: whether so many bytes more may be added. */
  constructor(firings: readonly Firing[], down: Downstream, room: (bytes: number) => boolean) {
    this.#firings = firings
      .filter(({ id }) => id in WRITES)
      .toSorted((a, b) => ORDER.indexOf(a.id) - ORDER.indexOf(b.id));
    this.#down = down;
    this.#room = room;
  }

  take(event: StreamEvent): void {
    const { index, own, done } = event;
    if (!this.#endless && !this.#firings.some((firing) => firing.due(index, done))) {
      this.#down.part({ bytes: Buffer.from(event.text), event: index, from: 0, owns: own ? 1 : 0, flush: true, done });
      return;
    }
    const writing: Writing = { text: bytesAsText(event.text), event, stage: this };
    for (const firing of this.#firings)
      if (firing.due(index, done) && WRITES[firing.id]!(writing, firing) !== false) firing.fired++;
    if (this.#endless) writing.text = writing.text.replace(/[\r\n]/g, "");
    this.#send(writing.text, index, own ? 1 : 0, done);
  }

  /** The first event from this one on, behind those of the head, that a fault may change. */
  next(event: number): number {
    if (this.#endless) return event;
    let next = Number.POSITIVE_INFINITY;
    for (const firing of this.#firings) next = Math.min(next, firing.nextDue(event));
    return next;
  }

  room(bytes: number): boolean {
    return this.#room(bytes);
  }

  /** Bytes of no event of the answer, at once. */
  extra(text: string, { index }: StreamEvent): void {
    this.#send(text, index, 0, false);
  }

  /** Comments, or nothing, for so long. */
  silence(us: number, everyUs: number, comments: boolean, event: StreamEvent): void {
    let left = us;
    for (; comments && left > 0 && this.#room(PING_BYTES); left -= everyUs) {
      this.#down.wait(Math.min(everyUs, left));
      this.extra(PING, event);
    }
    if (left > 0) this.#down.wait(left);
  }

  /** No line end is written from now on, and so many bytes more. */
  endless(bytes: number, event: StreamEvent): void {
    this.#endless = true;
    for (let left = bytes; left > 0; left -= FILLER) this.extra("x".repeat(Math.min(FILLER, left)), event);
  }

  /** The next line end of those that are mixed. */
  nextEnd(): string {
    return ["\n", "\r", "\r\n"][this.#line++ % 3]!;
  }

  #send(text: string, event: number, owns: number, done: boolean): void {
    this.#down.part({ bytes: Buffer.from(text, "latin1"), event, from: 0, owns, flush: true, done });
  }
}

/** A character for each byte of UTF-8. */
const bytesAsText = (text: string) => (NOT_ASCII.test(text) ? Buffer.from(text).toString("latin1") : text);
const NOT_ASCII = /[\u0080-\uffff]/;

const isData = ({ event }: Writing) => event.data !== null;
const isJson = ({ event }: Writing) => event.data?.startsWith("{") === true;
/** Where a line's value begins that a fault goes into. */
const dataAt = (text: string) => text.indexOf("data:") + 6;

const WRITES: Readonly<Record<string, Write>> = {
  T7: ({ event, stage }, firing) =>
    stage.silence(firing.number("for"), firing.number("every"), firing.word() === "comments", event),
  S5: ({ event, stage }, firing) => stage.silence(firing.number("for"), firing.number("every"), true, event),
  S12(writing, firing) {
    const more = firing.number("bytes") - writing.text.length;
    const end = writing.text.lastIndexOf("}");
    if (!isJson(writing) || end === -1 || more <= 0 || !writing.stage.room(more)) return false;
    writing.text = writing.text.slice(0, end) + " ".repeat(more) + writing.text.slice(end);
  },
  S9(writing, firing) {
    if (!isJson(writing)) return false;
    if (firing.word() === "single") writing.text = writing.text.replace(/\n\n$/, "\n");
    // Between two members, where JSON takes white space.
    else writing.text = writing.text.replace(/,"(?=[a-z_]+":)/, ',\ndata: "');
  },
  S10(writing, firing) {
    if (!isData(writing)) return false;
    const how = firing.word();
    const fields = Object.entries(FIELDS).filter(([name]) => how === "all" || how === name);
    const text = fields.filter(([name]) => name !== "event" || writing.event.name === null).map(([, line]) => line);
    if (text.length === 0) return false;
    writing.text = text.join("") + writing.text;
  },
  S3(writing) {
    writing.text = writing.text.replace(/^(data|event|id|retry): /gm, "$1:");
  },
  S7(writing, firing) {
    if (!isJson(writing)) return false;
    const offset = firing.fault.position.offset ?? dataAt(writing.text) + 1 + firing.below(writing.event.index, 40);
    if (offset >= writing.text.length - 2) return false;
    writing.text = writing.text.slice(0, offset) + PING + writing.text.slice(offset);
  },
  B9(writing, firing) {
    if (!isJson(writing)) return false;
    const inText = writing.text.search(/"(content|text|delta|reasoning|thinking)":"/);
    const usual = inText === -1 ? dataAt(writing.text) + 2 : writing.text.indexOf(':"', inText) + 2;
    const offset = firing.fault.position.offset ?? usual;
    if (offset >= writing.text.length) return false;
    writing.text =
      writing.text.slice(0, offset) + (firing.word() === "ff" ? "\xff" : "\xe2\x82") + writing.text.slice(offset);
  },
  S15(writing, firing) {
    if (!isJson(writing)) return false;
    const from = dataAt(writing.text) + 1;
    const offset = firing.fault.position.offset ?? from + firing.below(writing.event.index, CUT_BEFORE);
    if (offset < from || offset >= writing.text.length - 2) return false;
    writing.text = writing.text.slice(0, offset);
  },
  S16: ({ event, stage }) => stage.extra("event: ping\n\n", event),
  S6: ({ event, stage }, firing) => stage.extra(firing.word() === "colon" ? "data:\n\n" : "data\n\n", event),
  S8: ({ event, stage }) => stage.extra("data: : ping\n\n", event),
  S4(writing, firing) {
    writing.text = COMMENTS[firing.word()]! + writing.text;
  },
  S11(writing) {
    writing.text = writing.text.replace(/\n\n$/, "");
  },
  S1(writing) {
    writing.text = writing.text.replaceAll("\n", "\r\n");
  },
  S2(writing, firing) {
    const mixed = firing.word() === "mixed";
    writing.text = writing.text.replace(/\n/g, () => (mixed ? writing.stage.nextEnd() : "\r"));
  },
  B8(writing) {
    writing.text = MARK + writing.text;
  },
  S13(writing, firing) {
    const bytes = firing.number("bytes");
    if (!writing.stage.room(bytes)) return false;
    writing.stage.endless(bytes, writing.event);
  },
};

/** In which the faults of this stage work, whatever their order in a plan. */
const ORDER = Object.keys(WRITES);
