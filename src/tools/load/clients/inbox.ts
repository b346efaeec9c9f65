/**
 * When did which bytes come? Of a burst of answers all get their times before any is read: reading takes as long as
 * coming does, and whoever reads first stamps the next one late. So what came is kept for a while, and read when no more
 * comes.
 */
import type { Clock } from "../../../base/clock.ts";

/** So many pieces and bytes are kept at most; then all are read. */
export const PIECES_MOST = 4096;
const BYTES_MOST = 1 << 22;
/** Nothing is kept longer than this for more that comes. */
export const PATIENCE_US = 10_000;
/** What a piece leaves behind besides its bytes. */
const PIECE_BYTES = 256;
/**
 * Garbage is collected when so much has been left behind and nothing has come for a while: before the host does it, which
 * may be in the middle of a burst.
 */
const GARBAGE_BYTES = 1 << 21;
export const QUIET_US = 1500;
/** Where it is not quiet it is looked again so much later, and twice as much each further time: a look costs a wake-up. */
const LOOK_FIRST_US = 7000;
const LOOK_MOST_US = 112_000;
/**
 * In a burst the loop looks for more for so long before it sleeps: a processor that has gone to sleep wakes up to half a
 * millisecond later on a virtual machine, and other threads (the compiler's, the allocator's) take it for as long. Not in a
 * short one after a short pause, where looking would cost as much as reading. A burst is over after a pause; what has none
 * for longer still is no burst.
 */
export const WATCH_US = 100;
export const BURST_US = { least: 1000, most: 100_000 };
const PAUSE_US = 500;
export const LONG_PAUSE_US = 5000;
/** When it is looked again whether it is quiet enough for what can wait. */
export const AHEAD_US = 5000;
/** So many sockets the kernel names at once (Bun 1.4, `LIBUS_MAX_READY_POLLS`). */
export const NAMED_MOST = 1024;
/** How long is read in a turn of the event loop in which nothing came; twice as long in each further one. */
const SLICE_FIRST_US = 15;
const SLICE_MOST_US = 120;

export class Inbox<To> {
  readonly #clock: Clock;
  readonly #read: (to: To, bytes: Uint8Array, nowUs: number) => void;
  readonly #collect: () => void;
  #garbage = 0;
  /** When something came last, when the burst to which it belongs began, and how long that has to be to be watched. */
  #lastUs = 0;
  #burstUs = 0;
  #leastUs = 0;
  /** A look whether it is quiet is ordered. */
  #listening = false;
  // Pieces, by column: whose each is, its bytes, when it came. Those from `#next` to below `#count` are not read yet.
  readonly #to: (To | null)[] = [];
  readonly #bytes: Uint8Array[] = [];
  readonly #us = new Float64Array(PIECES_MOST);
  #next = 0;
  #count = 0;
  #held = 0;
  /** As many as there were at the last turn. */
  #seen = 0;
  #sliceUs = SLICE_FIRST_US;
  #turning = false;
  /** When, in this turn, the kernel named the sockets that have something, and how many more it may have named. */
  #namedUs = 0;
  #named = 0;
  readonly #ahead = new Set<() => boolean>();
  #looksAhead = false;

  /** `read` gets each piece; `collect` is called now and then when it is quiet, and takes a millisecond. */
  constructor(clock: Clock, read: (to: To, bytes: Uint8Array, nowUs: number) => void, collect: () => void) {
    this.#clock = clock;
    this.#read = read;
    this.#collect = collect;
  }

  /** They came now. The bytes are the inbox's from here on. */
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
    this.#held += bytes.length;
    // Always a turn: with it the time of this one ends.
    if (!this.#turning) this.#turn();
    if (this.#held > BYTES_MOST || this.#count === PIECES_MOST) this.readAll();
  }

  /** A request is sent: what comes from here on may be its answer, and takes its own time. */
  sent(): void {
    this.#named = 0;
  }

  /** `work` can wait until nothing comes. It does one piece per call, and says whether there is more. */
  whenQuiet(work: () => boolean): void {
    this.#ahead.add(work);
    if (!this.#turning) this.#turn();
  }

  /** Nothing is kept any more. */
  readAll(): void {
    this.#readFor(Number.POSITIVE_INFINITY, 0);
  }

  #turn(): void {
    this.#turning = true;
    this.#clock.turn(this.#look);
  }

  /**
   * The kernel has named all sockets of a turn before the first of them is read: what they hold had come by then, also
   * where the first ones, or a stall between them, took a while.
   */
  #arrivedUs(): number {
    if (this.#named === 0) {
      this.#namedUs = this.#clock.now();
      this.#named = NAMED_MOST;
    }
    this.#named--;
    return this.#namedUs;
  }

  readonly #look = (): void => {
    this.#turning = false;
    this.#named = 0;
    const nowUs = this.#clock.now();
    // In a burst the alarm's thread may wait for this one's processor: who is due is not to wait for the burst's end.
    if (this.#clock.nextUs() < nowUs) this.#clock.catchUp?.();
    if (this.#count > 0) this.#readSome(nowUs);
    if (this.#turning) return;
    if (this.#count > 0 || this.#watches(nowUs) || this.#worksAhead(nowUs)) this.#turn();
    else if (this.#garbage > GARBAGE_BYTES && !this.#listening) this.#listen(QUIET_US, LOOK_FIRST_US);
  };

  #watches(nowUs: number): boolean {
    const burstUs = this.#lastUs - this.#burstUs;
    return burstUs >= this.#leastUs && burstUs < BURST_US.most && nowUs - this.#lastUs < WATCH_US;
  }

  /** A piece of what could wait; whether there is more. */
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
    this.#clock.at(atUs, () => {
      this.#looksAhead = false;
      if (!this.#turning) this.#turn();
    });
  }

  /** Unless more has come since the last turn. */
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
    this.#clock.at(this.#clock.now() + us, () => {
      this.#listening = false;
      if (this.#clock.now() - this.#lastUs < QUIET_US) this.#listen(nextUs, Math.min(2 * nextUs, LOOK_MOST_US));
      else {
        this.#garbage = 0;
        this.#collect();
      }
    });
  }

  /** One piece at least. Whoever reads may add, and may have all read. */
  #readFor(us: number, nowUs: number): void {
    const untilUs = nowUs + us;
    while (this.#next < this.#count) {
      const at = this.#next++;
      const [to, bytes] = [this.#to[at]!, this.#bytes[at]!];
      this.#to[at] = null;
      this.#bytes[at] = NOTHING;
      this.#held -= bytes.length;
      this.#garbage += bytes.length + PIECE_BYTES;
      this.#read(to, bytes, this.#us[at]!);
      if (this.#next === this.#count || this.#clock.now() >= untilUs) break;
    }
    if (this.#next < this.#count) return;
    this.#next = 0;
    this.#count = 0;
    this.#seen = 0;
  }
}

const NOTHING = new Uint8Array();
