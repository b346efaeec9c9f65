/**
 * Reads the requests of a trace in order, and sends the later turns of conversations. A later turn is sent after the answer
 * before it has ended and its user has paused, and not before its own time.
 */
import type { VirtualClock } from "../../base/virtual-clock.ts";
import type { TraceRequest } from "../../workloads/trace.ts";

/** Most later turns that wait at once. At this number, reading stops until a turn is sent. */
export const WAITING_MOST = 100_000;
/** Most hash ids of later turns that wait at once: 128 MiB. */
export const WAITING_IDS_MOST = 1 << 24;

interface Conversation {
  /** True if a turn is running, or a timer will send the next turn. */
  isBusy: boolean;
  /** End of the last answer, in microseconds of the clock. */
  endUs: number;
  /** Turns that wait for the end of the current one. */
  readonly waiting: TraceRequest[];
}

export interface ArrivalsOptions {
  readonly requests: Iterator<TraceRequest>;
  readonly clock: VirtualClock;
  /** Sends a later turn. */
  readonly send: (request: TraceRequest) => void;
}

export class TraceArrivals {
  /** The next request that waits for no answer; undefined: the trace has ended, or waiting turns must be sent first. */
  next: TraceRequest | undefined;
  readonly #conversations = new Map<string, Conversation>();
  #originUs = 0;
  #waiting = 0;
  #waitingIds = 0;
  #isRead = false;

  constructor(private readonly options: ArrivalsOptions) {}

  /** Sets the time of the clock at which the trace starts. Without a call it is 0. */
  startAt(us: number): void {
    this.#originUs = us;
  }

  /** True if requests will still be sent. */
  get hasMore(): boolean {
    return this.next !== undefined || this.#waiting > 0;
  }

  /** Reads until `next` is a request that waits for no answer. Throws what the trace throws. */
  advance(): void {
    this.next = undefined;
    while (!this.#isRead && this.#waiting < WAITING_MOST && this.#waitingIds < WAITING_IDS_MOST) {
      const { value, done } = this.options.requests.next();
      if (done) this.#isRead = true;
      else if (value.follows) this.#add(value);
      else {
        this.next = value;
        return;
      }
    }
  }

  /** Sends the next requests while there is room for them. In an open loop sends only those that arrive up to `untilUs`. */
  fill(hasRoom: () => boolean, untilUs: number): void {
    while (this.next !== undefined && hasRoom() && this.next.arrivalUs <= untilUs) {
      this.options.send(this.next);
      this.advance();
    }
  }

  /** Notes that a request was sent. */
  sent({ conversation }: TraceRequest): void {
    if (conversation !== undefined) this.#of(conversation).isBusy = true;
  }

  /** Notes that a request has ended or was refused. `conversation`: undefined if it belongs to none. */
  ended(conversation: string | undefined): void {
    if (conversation === undefined) return;
    const found = this.#of(conversation);
    found.isBusy = false;
    found.endUs = this.options.clock.now();
    const next = found.waiting.shift();
    if (next !== undefined) this.#schedule(found, next);
  }

  #of(name: string): Conversation {
    let found = this.#conversations.get(name);
    if (found === undefined) {
      found = { isBusy: false, endUs: Number.NEGATIVE_INFINITY, waiting: [] };
      this.#conversations.set(name, found);
    }
    return found;
  }

  #add(request: TraceRequest): void {
    this.#waiting++;
    this.#waitingIds += request.blockIds?.length ?? 0;
    const conversation = this.#of(request.conversation!);
    if (conversation.isBusy) conversation.waiting.push(request);
    else this.#schedule(conversation, request);
  }

  #schedule(conversation: Conversation, request: TraceRequest): void {
    conversation.isBusy = true;
    const dueUs = Math.max(this.#originUs + request.arrivalUs, conversation.endUs + (request.thinkUs ?? 0));
    this.options.clock.at(dueUs, () => {
      this.#waiting--;
      this.#waitingIds -= request.blockIds?.length ?? 0;
      this.options.send(request);
      if (this.next === undefined) this.advance();
    });
  }
}
