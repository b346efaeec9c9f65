/** Where do events of a stream wait whose client does not keep up? At most so many: with more its request is cancelled, the stream broken off. */

import { type EventLoopTurns, turn } from "../../../base/pieces.ts";
import type { EventSink, HeldBytes, SinkEvents } from "../../../wire/http/sink.ts";
import type { WaitingBytes } from "../../../wire/http/waiting-bytes.ts";
import type { PlainText } from "../behaviours/behaviour.ts";

/** Events, and bytes of those that have waited for a turn of the event loop: before that no client could have read them. */
const WAITING_MOST = 4096;
const WAITING_BYTES_MOST = 16 * 2 ** 20;
const NOTHING = new Uint8Array();

export class EventQueue {
  readonly #sink: EventSink;
  readonly #gone: (broken: boolean) => void;
  readonly #all: WaitingBytes;
  readonly #waiting: Uint8Array[] = [];
  #bytes = 0;
  readonly #turns: EventLoopTurns;
  /** The part of `#bytes` that has come in this turn of the event loop. */
  #newBytes = 0;
  #ends = false;
  /** Nobody is there for what comes. */
  #left = false;

  /**
   * `gone` is called when the client leaves, or does not read; or when it was told that the engine failed: `broken`. `all`: what
   * waits for clients of all streams.
   */
  constructor(
    open: (owner: SinkEvents, waiting: HeldBytes) => EventSink,
    gone: (broken: boolean) => void,
    all: WaitingBytes,
    turns: EventLoopTurns,
  ) {
    this.#gone = gone;
    this.#all = all;
    this.#turns = turns;
    const owner = {
      onDrain: () => this.#drain(),
      onGone: () => this.#leave(),
      onFailed: () => this.#leave(true),
    };
    this.#sink = open(owner, all);
  }

  write(event: Uint8Array): void {
    if (this.#left) return;
    if (this.#waiting.length === 0 && !this.#sink.full) this.#sink.writeParts(event, NOTHING, NOTHING);
    else {
      this.#waiting.push(event);
      this.#count(event.length);
      this.#came(event.length);
    }
    if (!this.#isTooMuch) return;
    // First: what is cancelled may end the stream at once, and an end would look like that of a whole answer.
    this.reset();
    this.#gone(false);
  }

  #came(bytes: number): void {
    if (this.#newBytes === 0) void turn(this.#turns).then(() => (this.#newBytes = 0));
    this.#newBytes += bytes;
  }

  /** Where too much waits for all clients, a stream that adds to it gives way; others go on. */
  get #isTooMuch(): boolean {
    if (this.#waiting.length > WAITING_MOST || this.#bytes - this.#newBytes > WAITING_BYTES_MOST) return true;
    return this.#all.exceeded && this.#sink.full;
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
    this.#left = true;
    this.#drop();
    this.#sink.reset();
  }

  #drain(): void {
    while (this.#waiting.length > 0 && !this.#sink.full) {
      const event = this.#waiting.shift()!;
      this.#count(-event.length);
      this.#sink.writeParts(event, NOTHING, NOTHING);
    }
    if (this.#ends && this.#waiting.length === 0) this.#sink.end();
  }

  #leave(broken = false): void {
    this.#left = true;
    this.#drop();
    this.#gone(broken);
  }

  #drop(): void {
    this.#waiting.length = 0;
    this.#count(-this.#bytes);
  }

  #count(bytes: number): void {
    this.#bytes += bytes;
    this.#all.held(bytes);
  }
}
