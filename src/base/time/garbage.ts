/**
 * Decides when the runtime collects garbage. The runtime counts the reserved memory of the WebAssembly core (hundreds of
 * megabytes) as live objects. On its own it would therefore collect only after about as much garbage.
 *
 * A whole collection examines all objects. A young collection examines only the objects created since the last collection.
 * Request bodies and streams leave garbage, so their number says when a collection is wanted. The clock says whether the thread
 * may spend time on it. The number alone is not enough: at 10,000 requests per second, one whole collection per 1,024 streams
 * took 16 % of a core.
 */
import type { SpareTime } from "./spare-time.ts";

/** Counted bytes after which a whole collection is wanted. A body leaves about five times its size as garbage. */
const COLLECT_AFTER_BYTES = 4 * 2 ** 20;
/**
 * Number of half streams after which a young collection is wanted. The first half counts when the request has been read, the
 * second when the stream opens, because each leaves about as much garbage. In a burst, all requests are read before the first
 * stream opens.
 */
const COLLECT_AFTER_HALVES = 512;
/**
 * Number of written tokens after which a young collection is wanted. Writing so many tokens leaves about two megabytes of garbage.
 * The runtime alone would collect after eight megabytes, and resident memory would grow by as much.
 */
const COLLECT_AFTER_TOKENS = 131_072;
/** Bytes that each stream adds to the count: the size of a body that leaves as much garbage. */
const STREAM_BYTES = 4096;
/**
 * Microseconds without a request after which the garbage of the last burst is collected, unless it is less than `LITTLE_BYTES`.
 */
const REST_US = 500_000;
const LITTLE_BYTES = 2 ** 21;
/** Whole collections take at most one fiftieth of the time. */
const WHOLE_PART = 50;
/** Assumed microseconds of a whole collection, until the first has been measured. */
const WHOLE_US = 20_000;
/** Young collections take at most one twentieth of the time, apart from the first ones of a burst (`YOUNG_BURST_US`). */
const YOUNG_PART = 20;
/** Microseconds that the young collections of a burst may take before `YOUNG_PART` limits them. */
const YOUNG_BURST_US = 50_000;
/**
 * Growth of resident memory, in bytes, after which a whole collection waits neither for `WHOLE_PART` nor for a gap between
 * steps.
 */
const GROWTH_BYTES = 24 * 2 ** 20;

export interface Collector {
  /** Collects the garbage of objects created since the last collection of any kind. Returns its duration in microseconds. */
  young(): number;
  /** Collects all garbage. Returns its duration in microseconds. */
  whole(): number;
  /**
   * Starts a collection of all garbage that runs while the thread continues, with short pauses. It returns no memory to the
   * system. Null if the runtime has no concurrent collections.
   */
  readonly concurrent: (() => void) | null;
  /** Returns the resident memory of the process in bytes. */
  residentBytes(): number;
}

/**
 * Limits one kind of work to `1 / part` of the time. `savedUs`: microseconds of work that are allowed before that limit
 * applies.
 */
class TimeShare {
  #paidUs = Number.NEGATIVE_INFINITY;

  constructor(
    readonly part: number,
    readonly savedUs: number,
  ) {}

  /** Time from which this kind of work is within its limit, in microseconds of the clock. */
  get freeAtUs(): number {
    return this.#paidUs - this.savedUs * this.part;
  }

  spend(nowUs: number, tookUs: number): void {
    this.#paidUs = Math.max(this.#paidUs, nowUs) + tookUs * this.part;
  }
}

export class Garbage {
  /** Bytes counted since the last whole collection was wanted. */
  #bytes = 0;
  /** The part of `#bytes` that bodies and answers added. Streams added the rest. */
  #bodyBytes = 0;
  /** Bytes counted since the start, and in `#seenBytes` their number at the last check whether the server is at rest. */
  #allBytes = 0;
  #seenBytes = 0;
  #halves = 0;
  #tokens = 0;
  /** True while a timer runs for the next check whether the server is at rest. */
  #looking = false;
  /** True while a whole collection waits for a gap between steps. */
  #asking = false;
  /** Number of whole collections that are postponed until there is time and a gap between steps for them. */
  #owed = 0;
  #makingUp = false;
  /**
   * True if one more whole collection must follow, because requests of a burst were still running at the last one. Bun 1.4
   * returns memory to the system before a collection, not after it.
   */
  #again = false;
  /** True while a young collection waits for a gap between steps. */
  #youngWaits = false;
  readonly #wholeShare = new TimeShare(WHOLE_PART, 0);
  /** Microseconds of the last whole collection. A concurrent collection takes about as much processor time. */
  #wholeUs = WHOLE_US;
  readonly #youngShare = new TimeShare(YOUNG_PART, YOUNG_BURST_US);
  /** Lowest resident memory, in bytes, that was measured since the last whole collection. */
  #lowestBytes = Number.POSITIVE_INFINITY;

  /** `gaps` finds gaps between steps that are long enough for a whole collection, `shortGaps` for a young one. */
  constructor(
    private readonly gaps: SpareTime,
    private readonly shortGaps: SpareTime,
    private readonly collector: Collector,
  ) {}

  /**
   * Counts bytes of a body or an answer that soon become garbage. After every 4 MiB at least a young collection follows, even
   * if young collections then exceed `YOUNG_PART`. A large body leaves hundreds of megabytes of garbage, and one late
   * collection of all of it would take longer.
   */
  readonly add = (bytes: number): void => {
    this.#bodyBytes += bytes;
    this.#count(bytes);
  };

  /** Counts the garbage of reading a stream's request, which is half of a stream's. `opened` counts the other half. */
  readonly read = (): void => this.#half();

  /** Counts the garbage of opening a stream. */
  readonly opened = (): void => {
    this.#half();
    this.#count(STREAM_BYTES);
  };

  /** Counts the tokens that a step has written to streams. */
  readonly wrote = (tokens: number): void => {
    this.#tokens += tokens;
    if (this.#tokens < COLLECT_AFTER_TOKENS) return;
    this.#tokens = 0;
    this.#young();
  };

  /**
   * Runs a young collection now, because many new objects stay in use. A young collection takes longer the more objects survive
   * it. The caller limits how often this happens.
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

  /** Runs a young collection in the next gap between steps. Runs it at once if an earlier call still waits for a gap. */
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
    // Without this young collection, a large answer would leave hundreds of megabytes while the whole collection waits for its
    // gap.
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
      // If bodies caused the growth, it is mostly memory in use, because a young collection has already freed their garbage.
      else if (!isOfBodies && !atRest && this.#hasGrown()) this.#besideStreams();
      else return this.#putOff(atRest, isOfBodies);
      if (found && !atRest) this.#onceMore();
      else this.#again = false;
    });
  }

  /**
   * Collects although the steps leave no gap that is long enough. Starts a concurrent collection, which stops 2,000 streams for
   * at most 5 ms. Without a second core there is none, so a whole one follows in a short gap and stops them for 15 to 25 ms.
   */
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
    // When the streams leave a gap, a whole collection returns the memory to the system.
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
      // Wait for a gap. A single check at this time could always coincide with work that is due every half second.
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
