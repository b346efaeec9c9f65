/** Which events are in what passes? Whole ones, each with its empty line, in the server's own line ends. */

/** Text without an empty line that is waited for; what is longer is taken for an event as it stands. */
const EVENT_MOST = 8 * 2 ** 20;
/** Line ends of the standard of event streams (WHATWG HTML, 9.2.5). A CR at the end may yet be half of a CRLF: it waits. */
const LINE_END = "(?:\\r\\n|\\n|\\r(?!\\n|$))";
const EVENT_END = new RegExp(`${LINE_END}${LINE_END}(?:\\r\\n|\\n)*`, "g");
/** An end that came in two reads began so many characters before the second, at most. */
const END_BEGUN = 3;

export class PassingEvents {
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  #rest = "";

  /** Events that are complete with these bytes. */
  push(bytes: Uint8Array): string[] {
    const events: string[] = [];
    EVENT_END.lastIndex = Math.max(0, this.#rest.length - END_BEGUN);
    this.#rest += this.#decoder.decode(bytes, { stream: true });
    let begin = 0;
    while (EVENT_END.test(this.#rest)) {
      events.push(this.#rest.slice(begin, EVENT_END.lastIndex));
      begin = EVENT_END.lastIndex;
    }
    this.#rest = this.#rest.slice(begin);
    if (this.#rest.length > EVENT_MOST) events.push(this.#take());
    return events;
  }

  /** What came behind the last one; "": nothing. */
  end(): string {
    return this.#take() + this.#decoder.decode();
  }

  #take(): string {
    const rest = this.#rest;
    this.#rest = "";
    return rest;
  }
}

/** An event as faults take it: its lines end with LF. */
export const withLineFeeds = (event: string): string => event.replace(/\r\n?/g, "\n");
