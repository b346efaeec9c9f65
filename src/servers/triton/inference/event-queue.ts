/**
 * Queues the events of a stream while its client reads too slowly. Above a limit, cancels the request and resets the stream. A
 * long event is sent in parts, which are created as the client reads.
 */

import { type EventLoopTurns, turn } from "../../../base/pieces.ts";
import { logUnexpected } from "../../../base/unexpected.ts";
import type { EventSink, HeldBytes, SinkEvents } from "../../../wire/http/sink.ts";
import type { WaitingBytes } from "../../../wire/http/waiting-bytes.ts";
import { DrainGate, sendParts } from "../../openai/front/send-parts.ts";
import type { TextStream } from "../behaviours/behaviour.ts";

/**
 * Most queued events, and most bytes of events older than the current turn of the event loop. No client could have read newer
 * events yet.
 */
const WAITING_MOST = 4096;
const WAITING_BYTES_MOST = 16 * 2 ** 20;
const NOTHING = new Uint8Array();

interface LongEvent {
  readonly parts: Iterable<Uint8Array>;
  /** Memory from which the parts are made, in bytes. */
  readonly bytes: number;
}

export class EventQueue {
  readonly #sink: EventSink;
  readonly #waiting: (Uint8Array | LongEvent)[] = [];
  /** Receives the sink's callbacks for the long event that is being sent. Null: no such event. */
  #gate: DrainGate | null = null;
  /** True after the first long event. A piece written past the queue could then overtake it. */
  hadLong = false;
  #over = () => {};
  #bytes = 0;
  /** The part of `#bytes` that was added in this turn of the event loop. */
  #newBytes = 0;
  #ends = false;
  /** True if the client has left. */
  #left = false;

  /**
   * `gone`: called when the client leaves or does not read, or with `broken` when a fault has already reported a failure to it.
   * `all`: bytes queued for the clients of all streams.
   */
  constructor(
    open: (owner: SinkEvents, waiting: HeldBytes) => EventSink,
    private readonly gone: (broken: boolean) => void,
    private readonly all: WaitingBytes,
    private readonly turns: EventLoopTurns,
  ) {
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
      this.#countNew(event.length);
    }
    if (!this.#isTooMuch) return;
    // Reset first, because cancelling may end the stream like a complete answer.
    this.reset();
    this.gone(false);
  }

  /**
   * Queues an event in parts of at most 64 KiB. `bytes`: memory from which they are made. If `parts` throws, the stream is
   * reset.
   */
  writeLong(parts: Iterable<Uint8Array>, bytes: number): void {
    if (this.#left) return;
    this.hadLong = true;
    this.#waiting.push({ parts, bytes });
    this.all.held(bytes);
    this.#drain();
  }

  get #isIdle(): boolean {
    return this.#waiting.length === 0 && this.#gate === null;
  }

  #countNew(bytes: number): void {
    if (this.#newBytes === 0) void turn(this.turns).then(() => (this.#newBytes = 0));
    this.#newBytes += bytes;
  }

  /** True if the stream must be reset: its own limits are exceeded, or those of all streams while its client does not read. */
  get #isTooMuch(): boolean {
    if (this.#waiting.length > WAITING_MOST || this.#bytes - this.#newBytes > WAITING_BYTES_MOST) return true;
    return this.all.exceeded && this.#sink.full;
  }

  /** Returns a sink for events that differ only in one JSON-escaped piece. It writes past the queue. */
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

  /** Ends the stream. `over`: called when all data were sent, or if the client has left. */
  end(over = () => {}): void {
    this.#ends = true;
    this.#over = over;
    if (this.#left) {
      this.#sink.end();
      over();
    } else this.#drain();
  }

  /** Resets the stream. */
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
    const gate = new DrainGate();
    this.#gate = gate;
    const into = {
      write: (part: Uint8Array) => sink.writeParts(part, NOTHING, NOTHING),
      get full() {
        return sink.full;
      },
    };
    try {
      await sendParts(parts, into, gate, this.turns);
    } catch (error) {
      logUnexpected("an answer could not be written and is broken off", error);
      this.reset();
    }
    this.#gate = null;
    this.all.held(-bytes);
    if (!this.#left) this.#drain();
  }

  #leave(broken = false): void {
    this.#left = true;
    this.#drop();
    this.gone(broken);
  }

  #drop(): void {
    for (const event of this.#waiting) if (!(event instanceof Uint8Array)) this.all.held(-event.bytes);
    this.#waiting.length = 0;
    this.#count(-this.#bytes);
    this.#gate?.onGone();
    if (this.#ends) this.#over();
  }

  #count(bytes: number): void {
    this.#bytes += bytes;
    this.all.held(bytes);
  }
}
