/** Where do events of a stream wait whose client does not keep up? At most so many: with more its request is cancelled. */
import type { EventSink, SinkEvents } from "../../http/sink.ts";
import type { PlainText } from "../../repository/behaviours/behaviour.ts";

const WAITING_MOST = 4096;
const NOTHING = new Uint8Array();

export class EventQueue {
  readonly #sink: EventSink;
  readonly #gone: (broken: boolean) => void;
  readonly #waiting: Uint8Array[] = [];
  #ends = false;

  /** `gone` is called when the client leaves, or does not read; or when it was told that the engine failed: `broken`. */
  constructor(open: (owner: SinkEvents) => EventSink, gone: (broken: boolean) => void) {
    this.#gone = gone;
    this.#sink = open({
      onDrain: () => this.#drain(),
      onGone: () => this.#leave(),
      onFailed: () => this.#leave(true),
    });
  }

  write(event: Uint8Array): void {
    if (this.#waiting.length === 0 && !this.#sink.full) {
      this.#sink.writeParts(event, NOTHING, NOTHING);
      return;
    }
    this.#waiting.push(event);
    if (this.#waiting.length > WAITING_MOST) this.#leave();
  }

  /** Events that differ in a piece alone, which is escaped for JSON, past the queue. */
  plain(prefix: Uint8Array, suffix: Uint8Array): PlainText {
    const sink = this.#sink;
    return {
      escaped: true,
      ...(sink.laneEnd ? { lane: { end: sink.laneEnd, prefix, suffix } } : {}),
      get full() {
        return sink.full;
      },
      write: (piece) => void sink.writeParts(prefix, piece, suffix),
    };
  }

  end(): void {
    this.#ends = true;
    this.#drain();
  }

  /** Breaks the stream off. */
  reset(): void {
    this.#waiting.length = 0;
    this.#sink.reset();
  }

  #drain(): void {
    while (this.#waiting.length > 0 && !this.#sink.full)
      this.#sink.writeParts(this.#waiting.shift()!, NOTHING, NOTHING);
    if (this.#ends && this.#waiting.length === 0) this.#sink.end();
  }

  #leave(broken = false): void {
    this.#waiting.length = 0;
    this.#gone(broken);
  }
}
