/** Splits a forwarded event stream into whole events, each with its empty line. Line ends stay as the server sent them. */

/** Most characters without an empty line. Longer text counts as an event. */
const EVENT_MOST = 8 * 2 ** 20;
/** Line ends of event streams (WHATWG HTML, 9.2.5). A CR at the end of the text is not matched, because LF may follow. */
const LINE_END = "(?:\\r\\n|\\n|\\r(?!\\n|$))";
const EVENT_END = new RegExp(`${LINE_END}${LINE_END}(?:\\r\\n|\\n)*`, "g");
/** Most characters of an event's end that may be in an earlier read than its last character. */
const END_BEGUN = 3;

export class PassingEvents {
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  /** The pieces after the last event. They are joined only once, because joining each time costs quadratic time. */
  #rest: string[] = [];
  #restLength = 0;
  /** Last characters of the rest, in which an empty line may have started. */
  #tail = "";

  /** Adds bytes and returns the events that are now complete. */
  push(bytes: Uint8Array): string[] {
    const events: string[] = [];
    const before = this.#tail.length;
    const text = this.#tail + this.#decoder.decode(bytes, { stream: true });
    let begin = before;
    EVENT_END.lastIndex = 0;
    while (EVENT_END.test(text)) {
      this.#rest.push(text.slice(begin, EVENT_END.lastIndex));
      events.push(this.#take());
      begin = EVENT_END.lastIndex;
    }
    this.#rest.push(text.slice(begin));
    this.#restLength += text.length - begin;
    this.#tail = text.slice(events.length > 0 ? Math.max(begin, text.length - END_BEGUN) : -END_BEGUN);
    if (this.#restLength > EVENT_MOST) events.push(this.#take());
    return events;
  }

  /** Returns the text after the last event, perhaps "". */
  end(): string {
    return this.#take() + this.#decoder.decode();
  }

  #take(): string {
    const rest = this.#rest.join("");
    this.#rest = [];
    this.#restLength = 0;
    this.#tail = "";
    return rest;
  }
}

/** Replaces all line ends by LF, as faults expect. */
export const withLineFeeds = (event: string): string => event.replace(/\r\n?/g, "\n");
