/**
 * Keeps the events of a stream while its client does not keep up. If too many wait, the request is cancelled and the stream
 * broken off. A long event leaves in parts, which are made as the client takes them.
 */

import { type EventLoopTurns, turn } from "../../../base/pieces.ts";
import { logUnexpected } from "../../../base/unexpected.ts";
import type { EventSink, HeldBytes, SinkEvents } from "../../../wire/http/sink.ts";
import type { WaitingBytes } from "../../../wire/http/waiting-bytes.ts";
import { Gate, sendParts } from "../../openai/front/send-parts.ts";
import type { TextStream } from "../behaviours/behaviour.ts";

/** Events, and bytes of those that have waited for a turn of the event loop: before that no client could have read them. */
const WAITING_MOST = 4096;
const WAITING_BYTES_MOST = 16 * 2 ** 20;
const NOTHING = new Uint8Array();

interface LongEvent {
  readonly parts: Iterable<Uint8Array>;
  /** Memory that the parts are made of. */
  readonly bytes: number;
}

export class EventQueue {
  readonly #sink: EventSink;
  readonly #gone: (broken: boolean) => void;
  readonly #all: WaitingBytes;
  readonly #waiting: (Uint8Array | LongEvent)[] = [];
  /** Tells the long event that is being sent what the sink tells. Null if there is none. */
  #gate: Gate | null = null;
  /** True once there was a long event: what is written past the queue could overtake it. */
  hadLong = false;
  #over = () => {};
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
    if (this.#isIdle && !this.#sink.full) this.#sink.writeParts(event, NOTHING, NOTHING);
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

  /** Writes an event in parts of at most 64 KiB. `bytes`: memory that they are made of. An error of `parts` breaks the stream off. */
  writeLong(parts: Iterable<Uint8Array>, bytes: number): void {
    if (this.#left) return;
    this.hadLong = true;
    this.#waiting.push({ parts, bytes });
    this.#all.held(bytes);
    this.#drain();
  }

  get #isIdle(): boolean {
    return this.#waiting.length === 0 && this.#gate === null;
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
  plain(prefix: Uint8Array, suffix: Uint8Array): TextStream {
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

  /** Ends the stream. `over` is called when all of it has left, or if nobody is there for it. */
  end(over = () => {}): void {
    this.#ends = true;
    this.#over = over;
    if (this.#left) {
      this.#sink.end();
      over();
    } else this.#drain();
  }

  /** Breaks the stream off. */
  reset(): void {
    this.#left = true;
    this.#drop();
    this.#sink.reset();
  }

  #drain(): void {
    this.#gate?.onDrain();
    while (this.#gate === null && this.#waiting.length > 0 && !this.#sink.full) {
      const event = this.#waiting.shift()!;
      if (!(event instanceof Uint8Array)) {
        void this.#send(event);
        return;
      }
      this.#count(-event.length);
      this.#sink.writeParts(event, NOTHING, NOTHING);
    }
    if (!this.#ends || !this.#isIdle) return;
    this.#sink.end();
    this.#over();
  }

  async #send({ parts, bytes }: LongEvent): Promise<void> {
    const sink = this.#sink;
    const gate = new Gate();
    this.#gate = gate;
    const into = {
      write: (part: Uint8Array) => sink.writeParts(part, NOTHING, NOTHING),
      get full() {
        return sink.full;
      },
    };
    try {
      await sendParts(parts, into, gate, this.#turns);
    } catch (error) {
      logUnexpected("an answer could not be written and is broken off", error);
      this.reset();
    }
    this.#gate = null;
    this.#all.held(-bytes);
    if (!this.#left) this.#drain();
  }

  #leave(broken = false): void {
    this.#left = true;
    this.#drop();
    this.#gone(broken);
  }

  #drop(): void {
    for (const event of this.#waiting) if (!(event instanceof Uint8Array)) this.#all.held(-event.bytes);
    this.#waiting.length = 0;
    this.#count(-this.#bytes);
    this.#gate?.onGone();
    if (this.#ends) this.#over();
  }

  #count(bytes: number): void {
    this.#bytes += bytes;
    this.#all.held(bytes);
  }
}
