/**
 * Gives incoming bytes their arrival times. In a burst, all pieces are stamped before any is parsed, because parsing takes as
 * long as receiving, and would delay the stamps of later pieces. So pieces are queued and parsed when no more arrive.
 */
import type { Clock } from "../../../base/clock.ts";

/** Maximum number of queued pieces and bytes. If there are more, all are parsed. */
export const PIECES_MOST = 4096;
const BYTES_MOST = 1 << 22;
/** Longest time in microseconds that a piece waits for more pieces. */
export const PATIENCE_US = 10_000;
/** Garbage of a piece in addition to its bytes. */
const PIECE_BYTES = 256;
/**
 * Bytes of garbage after which it is collected, in a quiet moment. Otherwise the runtime would collect it at any time, even in
 * a burst.
 */
const GARBAGE_BYTES = 1 << 21;
export const QUIET_US = 1500;
/**
 * Microseconds until the next check for a quiet moment, and their maximum. They double each time, because a check costs a
 * wake-up.
 */
const LOOK_FIRST_US = 7000;
const LOOK_MOST_US = 112_000;
/**
 * In a burst, the loop polls for this time before it sleeps. On a virtual machine, a sleeping processor wakes up to half a
 * millisecond late, and other threads may take it for as long. Short bursts after short pauses are not polled, because polling
 * would cost as much as parsing. A burst ends with a pause; data without pauses for longer than the maximum does not count as
 * a burst.
 */
export const WATCH_US = 100;
export const BURST_US = { least: 1000, most: 100_000 };
const PAUSE_US = 500;
export const LONG_PAUSE_US = 5000;
/** Microseconds until the next check whether low-priority work may run. */
export const AHEAD_US = 5000;
/** Maximum number of sockets that one poll of the kernel returns (Bun 1.4, `LIBUS_MAX_READY_POLLS`). */
export const NAMED_MOST = 1024;
/** Microseconds of parsing per turn of the event loop without new pieces. Doubles with each such turn, up to the maximum. */
const SLICE_FIRST_US = 15;
const SLICE_MOST_US = 120;

export class Inbox<To> {
  #garbage = 0;
  /** Time of the last piece, start of its burst, and length from which the burst is polled. */
  #lastUs = 0;
  #burstUs = 0;
  #leastUs = 0;
  /** True if a check for a quiet moment is scheduled. */
  #listening = false;
  // Columns of queued pieces: receiver, bytes, arrival time. Pieces from `#next` to below `#count` are not parsed yet.
  readonly #to: (To | null)[] = [];
  readonly #bytes: Uint8Array[] = [];
  readonly #us = new Float64Array(PIECES_MOST);
  #next = 0;
  #count = 0;
  #queuedBytes = 0;
  /** Number of pieces at the last turn. */
  #seen = 0;
  #sliceUs = SLICE_FIRST_US;
  #turning = false;
  /** Time at which the kernel returned the readable sockets of this turn, and how many more sockets it may have returned. */
  #namedUs = 0;
  #named = 0;
  readonly #ahead = new Set<() => boolean>();
  #looksAhead = false;

  /** `read` parses a piece. `collect` collects garbage and takes a millisecond; it is called only in quiet moments. */
  constructor(
    private readonly clock: Clock,
    private readonly read: (to: To, bytes: Uint8Array, nowUs: number) => void,
    private readonly collect: () => void,
  ) {}

  /** Queues bytes that arrived now. The inbox owns them from here on. */
  add(to: To, bytes: Uint8Array): void {
    const nowUs = this.#arrivedUs();
    const pauseUs = nowUs - this.#lastUs;
    if (pauseUs > PAUSE_US) {
      this.#burstUs = nowUs;
      this.#leastUs = pauseUs > LONG_PAUSE_US ? 0 : BURST_US.least;
    }
    this.#lastUs = nowUs;
    const at = this.#count++;
    this.#us[at] = nowUs;
    this.#to[at] = to;
    this.#bytes[at] = bytes;
    this.#queuedBytes += bytes.length;
    // Always schedule a turn, because it ends the validity of the current arrival time.
    if (!this.#turning) this.#turn();
    if (this.#queuedBytes > BYTES_MOST || this.#count === PIECES_MOST) this.readAll();
  }

  /** Records that a request is sent. Later bytes may be its answer, so they get a new arrival time. */
  sent(): void {
    this.#named = 0;
  }

  /**
   * Schedules low-priority work for moments without incoming data. `work` does one piece per call and returns true if there is
   * more.
   */
  whenQuiet(work: () => boolean): void {
    this.#ahead.add(work);
    if (!this.#turning) this.#turn();
  }

  /** Parses all queued pieces. */
  readAll(): void {
    this.#readFor(Number.POSITIVE_INFINITY, 0);
  }

  #turn(): void {
    this.#turning = true;
    this.clock.turn(this.#look);
  }

  /**
   * Returns the arrival time of a piece. The kernel returns all readable sockets of a turn before the first is read, so all
   * their data had arrived by then, even if the reading takes long.
   */
  #arrivedUs(): number {
    if (this.#named === 0) {
      this.#namedUs = this.clock.now();
      this.#named = NAMED_MOST;
    }
    this.#named--;
    return this.#namedUs;
  }

  readonly #look = (): void => {
    this.#turning = false;
    this.#named = 0;
    const nowUs = this.clock.now();
    // In a burst, the thread of the alarm may lack a processor. So start work that is due here, and not after the burst.
    if (this.clock.nextUs() < nowUs) this.clock.catchUp?.();
    if (this.#count > 0) this.#readSome(nowUs);
    if (this.#turning) return;
    if (this.#count > 0 || this.#watches(nowUs) || this.#worksAhead(nowUs)) this.#turn();
    else if (this.#garbage > GARBAGE_BYTES && !this.#listening) this.#listen(QUIET_US, LOOK_FIRST_US);
  };

  #watches(nowUs: number): boolean {
    const burstUs = this.#lastUs - this.#burstUs;
    return burstUs >= this.#leastUs && burstUs < BURST_US.most && nowUs - this.#lastUs < WATCH_US;
  }

  /** Does a piece of low-priority work if it is quiet. Returns true if there is more to do. */
  #worksAhead(nowUs: number): boolean {
    if (this.#ahead.size === 0) return false;
    if (nowUs - this.#lastUs < WATCH_US) {
      this.#lookAhead(nowUs + AHEAD_US);
      return false;
    }
    const [work] = this.#ahead;
    if (!work!()) this.#ahead.delete(work!);
    return this.#ahead.size > 0;
  }

  #lookAhead(atUs: number): void {
    if (this.#looksAhead) return;
    this.#looksAhead = true;
    this.clock.at(atUs, () => {
      this.#looksAhead = false;
      if (!this.#turning) this.#turn();
    });
  }

  /** Parses some pieces, unless more arrived since the last turn. */
  #readSome(nowUs: number): void {
    const more = this.#count > this.#seen;
    this.#seen = this.#count;
    if (!more) {
      this.#readFor(this.#sliceUs, nowUs);
      this.#sliceUs = Math.min(2 * this.#sliceUs, SLICE_MOST_US);
    } else {
      this.#sliceUs = SLICE_FIRST_US;
      if (nowUs - this.#us[this.#next]! > PATIENCE_US) this.#readFor(SLICE_MOST_US, nowUs);
    }
  }

  #listen(us: number, nextUs: number): void {
    this.#listening = true;
    this.clock.at(this.clock.now() + us, () => {
      this.#listening = false;
      if (this.clock.now() - this.#lastUs < QUIET_US) this.#listen(nextUs, Math.min(2 * nextUs, LOOK_MOST_US));
      else {
        this.#garbage = 0;
        this.collect();
      }
    });
  }

  /** Parses for a limited time, at least one piece. A parser may add pieces, and may cause all to be parsed. */
  #readFor(us: number, nowUs: number): void {
    const untilUs = nowUs + us;
    while (this.#next < this.#count) {
      const at = this.#next++;
      const [to, bytes] = [this.#to[at]!, this.#bytes[at]!];
      this.#to[at] = null;
      this.#bytes[at] = NOTHING;
      this.#queuedBytes -= bytes.length;
      this.#garbage += bytes.length + PIECE_BYTES;
      this.read(to, bytes, this.#us[at]!);
      if (this.#next === this.#count || this.clock.now() >= untilUs) break;
    }
    if (this.#next < this.#count) return;
    this.#next = 0;
    this.#count = 0;
    this.#seen = 0;
  }
}

const NOTHING = new Uint8Array();
