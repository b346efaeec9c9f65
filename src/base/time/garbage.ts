/**
 * Decides when garbage is collected. The runtime counts the reserved memory of the core (hundreds of megabytes) as live,
 * and so would let as much garbage gather before it collects by itself.
 *
 * Bodies and streams that came say that there is garbage; the clock says whether a collection may take the thread for
 * it. A count alone is no limit: at 10,000 requests per second, one whole collection per 1,024 streams took 16 % of a
 * core.
 */
import type { SpareTime } from "./spare-time.ts";

/** Bytes of bodies after which a collection is ordered. Each body leaves about five times its size. */
const COLLECT_AFTER_BYTES = 4 * 2 ** 20;
/**
 * Half streams after which a young collection is ordered. A stream counts half when its request was read, and half when it
 * is opened, because both leave about as much. All requests of a burst are read before the first stream is opened.
 */
const COLLECT_AFTER_HALVES = 512;
/** Bytes of a body that leaves as much garbage as a stream. */
const STREAM_BYTES = 4096;
/** If no request comes for this long, the garbage of the last burst is collected, unless it is less than `LITTLE_BYTES`. */
const REST_US = 500_000;
const LITTLE_BYTES = 2 ** 21;
/** Whole collections take at most 1 part in 50 of the time. */
const WHOLE_PART = 50;
/** Assumed duration of a whole collection, until the first has been measured. */
const WHOLE_US = 20_000;
/** Young collections take at most 1 part in 20 of the time, after the first of a burst. */
const YOUNG_PART = 20;
/** Time that the young collections of a burst take before the limit holds. */
const YOUNG_BURST_US = 50_000;
/** Growth of resident memory after which a whole collection does not wait for its time, nor for a gap between steps. */
const GROWTH_BYTES = 48 * 2 ** 20;

export interface Collector {
  /** Collects garbage that came since the last collection of any kind. Returns how long it took, microseconds. */
  young(): number;
  /** Collects all garbage. Returns how long it took, microseconds. */
  whole(): number;
  /**
   * Begins to collect all garbage while the thread goes on, with short pauses. Gives no memory back to the system. null if
   * the runtime collects in one go only.
   */
  readonly concurrent: (() => void) | null;
  /** Returns the resident memory of the process, bytes. */
  residentBytes(): number;
}

/** Limits a kind of work to one part in `part` of the time, after `savedUs` of it. */
class TimeShare {
  #paidUs = Number.NEGATIVE_INFINITY;

  constructor(
    readonly part: number,
    readonly savedUs: number,
  ) {}

  /** Time at which the work may begin. */
  get freeAtUs(): number {
    return this.#paidUs - this.savedUs * this.part;
  }

  spend(nowUs: number, tookUs: number): void {
    this.#paidUs = Math.max(this.#paidUs, nowUs) + tookUs * this.part;
  }
}

export class Garbage {
  /** Bytes since the last ordered collection. */
  #bytes = 0;
  /** Bytes of bodies and answers since then. */
  #bodyBytes = 0;
  /** Bytes since the start, and their number at the last look whether the server is at rest. */
  #allBytes = 0;
  #seenBytes = 0;
  #halves = 0;
  /** True while a look whether the server is at rest is ordered. */
  #looking = false;
  /** True while a whole collection waits for a gap between steps. */
  #asking = false;
  /** Whole collections that are put off until there is time and a gap for them. */
  #owed = 0;
  #makingUp = false;
  /**
   * True if one more whole collection follows, because requests of a burst were still running at the last one. Bun 1.4
   * returns memory to the system before a collection, not after it.
   */
  #again = false;
  /** True while a young collection waits for a gap between steps. */
  #youngWaits = false;
  readonly #wholeShare = new TimeShare(WHOLE_PART, 0);
  /** Duration of the last whole collection. A concurrent one takes about as much processor time. */
  #wholeUs = WHOLE_US;
  readonly #youngShare = new TimeShare(YOUNG_PART, YOUNG_BURST_US);
  /** The lowest resident memory that was seen since the last whole collection. */
  #lowestBytes = Number.POSITIVE_INFINITY;

  /** `gaps` leave time for a whole collection, `shortGaps` for a young one. */
  constructor(
    private readonly gaps: SpareTime,
    private readonly shortGaps: SpareTime,
    private readonly collector: Collector,
  ) {}

  /**
   * Counts bytes of a body, or of an answer, that are garbage soon. A young collection follows every 4 MiB of them, whatever
   * share of the time it takes. A body of megabytes leaves hundreds of them, and one late collection of all takes longer.
   */
  readonly add = (bytes: number): void => {
    this.#bodyBytes += bytes;
    this.#count(bytes);
  };

  /** Counts a request for a stream that was read. */
  readonly read = (): void => this.#half();

  readonly opened = (): void => {
    this.#half();
    this.#count(STREAM_BYTES);
  };

  /**
   * Collects young garbage now, because many new objects stay in use: a young collection takes as long as its survivors need.
   * The caller limits how often.
   */
  readonly crowded = (): void => this.#youngNow();

  #count(bytes: number): void {
    this.#bytes += bytes;
    this.#allBytes += bytes;
    if (this.#bytes >= COLLECT_AFTER_BYTES) this.#ask();
    else if (!this.#looking && this.#bytes >= LITTLE_BYTES) this.#lookLater();
  }

  get #nowUs(): number {
    return this.gaps.clock.now();
  }

  #half(): void {
    if (++this.#halves % COLLECT_AFTER_HALVES === 0) this.#young();
  }

  /** Collects in the next gap, and at once if the previous order still waits for one. */
  #young(): void {
    if (this.#nowUs < this.#youngShare.freeAtUs) return;
    if (this.#youngWaits || this.shortGaps.isThere) this.#youngNow();
    else {
      this.#youngWaits = true;
      void this.shortGaps.pass().then(() => this.#youngWaits && this.#youngNow());
    }
  }

  #youngNow(): void {
    this.#youngWaits = false;
    const tookUs = this.collector.young();
    this.#youngShare.spend(this.#nowUs, tookUs);
  }

  #ask(atRest = false): void {
    const isOfBodies = this.#bodyBytes >= COLLECT_AFTER_BYTES / 2;
    this.#bytes = 0;
    this.#bodyBytes = 0;
    // An answer of megabytes would leave hundreds of them while a whole collection waits for its gap.
    if (this.#asking) this.#youngOf(isOfBodies);
    else if (this.#mayBegin()) this.#inGap(atRest, isOfBodies);
    else this.#putOff(atRest, isOfBodies);
  }

  #youngOf(isOfBodies: boolean): void {
    if (isOfBodies) this.#youngNow();
    else this.#young();
  }

  #inGap(atRest: boolean, isOfBodies: boolean): void {
    this.#asking = true;
    void this.gaps.pass().then((found) => {
      this.#asking = false;
      if (found) this.#whole();
      // Growth by bodies is mostly memory in use, because young collections follow them closely.
      else if (!isOfBodies && !atRest && this.#hasGrown()) this.#besideStreams();
      else return this.#putOff(atRest, isOfBodies);
      if (found && !atRest) this.#onceMore();
      else this.#again = false;
    });
  }

  /** A whole collection would stop 2,000 streams for 15 to 25 ms, a concurrent one stops them for 5 at most. */
  #besideStreams(): void {
    const { concurrent } = this.collector;
    if (concurrent === null) {
      this.#asking = true;
      void this.shortGaps.pass().then(() => {
        this.#asking = false;
        this.#whole();
      });
      return;
    }
    concurrent();
    this.#wholeShare.spend(this.#nowUs, this.#wholeUs);
    this.#lowestBytes = this.collector.residentBytes();
    // When the streams leave a gap, a whole one gives the memory back.
    this.#owed = Math.max(this.#owed, 1);
    this.#makeUpLater();
  }

  #mayBegin(): boolean {
    return this.#nowUs >= this.#wholeShare.freeAtUs || this.#hasGrown();
  }

  #hasGrown(): boolean {
    const residentBytes = this.collector.residentBytes();
    this.#lowestBytes = Math.min(this.#lowestBytes, residentBytes);
    return residentBytes - this.#lowestBytes >= GROWTH_BYTES;
  }

  #whole(): void {
    this.#owed = 0;
    this.#wholeUs = this.collector.whole();
    this.#wholeShare.spend(this.#nowUs, this.#wholeUs);
    this.#lowestBytes = this.collector.residentBytes();
  }

  #onceMore(): void {
    this.#again = true;
    if (!this.#looking) this.#lookLater();
  }

  #putOff(atRest: boolean, isOfBodies: boolean): void {
    this.#youngOf(isOfBodies);
    if (atRest) this.#again = false;
    this.#owed = Math.max(this.#owed, atRest ? 1 : 2);
    this.#makeUpLater();
  }

  #makeUpLater(): void {
    if (this.#makingUp) return;
    this.#makingUp = true;
    const { clock } = this.gaps;
    clock.at(Math.max(clock.now() + REST_US, this.#wholeShare.freeAtUs), () => {
      // A look at this time alone could always meet work that is due every half a second.
      void this.gaps.pass().then((found) => {
        this.#makingUp = false;
        const owed = this.#owed;
        if (owed === 0) return;
        if (!found || !this.#mayBegin()) return this.#makeUpLater();
        this.#whole();
        if (owed > 1) this.#onceMore();
      });
    });
  }

  #lookLater(): void {
    this.#looking = true;
    this.#seenBytes = this.#allBytes;
    const { clock } = this.gaps;
    clock.at(clock.now() + REST_US, () => {
      this.#looking = false;
      if (this.#bytes < LITTLE_BYTES && !this.#again) return;
      if (this.#allBytes === this.#seenBytes) this.#ask(true);
      else this.#lookLater();
    });
  }
}
