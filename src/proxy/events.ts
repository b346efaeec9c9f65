/** Which events are in what passes? Whole ones, each with its empty line; line ends are LF from here on. */

/** Text without an empty line that is waited for; what is longer is taken for an event as it stands. */
const EVENT_MOST = 8 * 2 ** 20;

export class PassingEvents {
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  #rest = "";
  #lastCr = false;

  /** Events that are complete with these bytes. */
  push(bytes: Uint8Array): string[] {
    let text = this.#decoder.decode(bytes, { stream: true });
    if (this.#lastCr && text.startsWith("\n")) text = text.slice(1);
    this.#lastCr = text === "" ? this.#lastCr : text.endsWith("\r");
    this.#rest += text.replace(/\r\n?/g, "\n");
    const end = this.#rest.lastIndexOf("\n\n");
    if (end === -1) return this.#rest.length > EVENT_MOST ? [this.#take()] : [];
    const whole = this.#rest.slice(0, end + 2);
    this.#rest = this.#rest.slice(end + 2);
    return whole.split(/(?<=\n\n)/).filter((one) => one !== "");
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
