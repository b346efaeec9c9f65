/** Cuts what passes into whole events, each with its empty line, in the server's own line ends. */

/** Text without an empty line that is waited for; what is longer is taken for an event as it stands. */
const EVENT_MOST = 8 * 2 ** 20;
/** Line ends of the standard of event streams (WHATWG HTML, 9.2.5). A CR at the end may yet be half of a CRLF: it waits. */
const LINE_END = "(?:\\r\\n|\\n|\\r(?!\\n|$))";
const EVENT_END = new RegExp(`${LINE_END}${LINE_END}(?:\\r\\n|\\n)*`, "g");
/** An end that came in two reads began so many characters before the second, at most. */
const END_BEGUN = 3;

export class PassingEvents {
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  /** The text behind the last event, as it came: joining it with each piece would cost its square. */
  #rest: string[] = [];
  #restLength = 0;
  /** The end of that text, where an empty line may have begun. */
  #tail = "";

  /** Events that are complete with these bytes. */
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

  /** What came behind the last one; "": nothing. */
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

/** An event as faults take it: its lines end with LF. */
export const withLineFeeds = (event: string): string => event.replace(/\r\n?/g, "\n");
