/**
 * Limits the memory of request heads and small bodies that have arrived only in part. Above the limit, requests that began at
 * least a second ago are dropped, the oldest first. If none is that old, reading from the client pauses. Large bodies have a
 * limit of their own (`servers/openai/front/body-room.ts`).
 */
import type { Timer } from "./deadlines.ts";

/** Limit for all unfinished requests of a server together, in bytes. */
export const UNFINISHED_MOST_BYTES = 64 * 2 ** 20;
/** Bodies up to this size count here. */
export const SMALL_BODY_BYTES = 2 ** 20;
/** Memory that each part of a body costs in addition to its bytes. */
export const PART_BYTES = 128;
/** Parts of bodies, such as chunks, after which a connection is not read until the next turn of the event loop. */
export const PARTS_OF_A_TURN = 2048;
/**
 * Age below which a request is dropped only above twice the limit. HTTP/2 clients may send a whole flow-control window although
 * their stream is paused.
 */
const ALONE_US = 1_000_000;
/** Interval at which paused connections are looked at. */
const LOOK_US = 100_000;
/** Number of connections resumed per look, even if there is hardly any room: most of them send nothing. */
const RESUMED_LEAST = 8;
const RESUMED_MOST = 64;
/**
 * Bytes that one read of a socket may bring, and so the room that a resumed connection may need before it can be paused again.
 */
const READ_BYTES = 524_288;

/** The owner of a request that has arrived only in part. */
export interface UnfinishedOwner {
  pause(): void;
  resume(): void;
  /** Drops the request to make room for others. */
  giveWay(): void;
}

interface Entry {
  readonly sinceUs: number;
  bytes: number;
  paused: boolean;
}

export class UnfinishedRequests {
  readonly #most: number;
  /** In the order in which the requests began. */
  readonly #entries = new Map<UnfinishedOwner, Entry>();
  #bytes = 0;
  #paused = 0;
  #isArmed = false;

  readonly #consumed: (bytes: number) => void;

  /** `consumed`: called with the number of bytes that became garbage. */
  constructor(
    private readonly timer: Required<Timer>,
    { most = UNFINISHED_MOST_BYTES, consumed = () => {} }: { most?: number; consumed?: (bytes: number) => void } = {},
  ) {
    this.#most = most;
    this.#consumed = consumed;
  }

  /** Bytes of all unfinished requests together. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Sets the number of bytes kept of an unfinished request. */
  holds(owner: UnfinishedOwner, bytes: number): void {
    let entry = this.#entries.get(owner);
    if (entry === undefined) {
      entry = { sinceUs: this.timer.nowUs(), bytes: 0, paused: false };
      this.#entries.set(owner, entry);
    }
    this.#bytes += bytes - entry.bytes;
    entry.bytes = bytes;
    if (this.#bytes <= this.#most) return;
    this.#makeRoom();
    if (this.#bytes <= this.#most || entry.paused || !this.#entries.has(owner)) return;
    entry.paused = true;
    this.#paused++;
    owner.pause();
    this.#arm();
  }

  /** Removes a request that is complete, or that is counted elsewhere from now on. */
  leaves(owner: UnfinishedOwner): void {
    if (this.#remove(owner) !== null) this.#resumeOldest(1);
  }

  /** Removes a request whose rest will not arrive. */
  drops(owner: UnfinishedOwner): void {
    const bytes = this.#remove(owner);
    if (bytes === null) return;
    this.#consumed(bytes);
    this.#resumeOldest(1);
  }

  #remove(owner: UnfinishedOwner): number | null {
    const entry = this.#entries.get(owner);
    if (entry === undefined) return null;
    this.#entries.delete(owner);
    this.#bytes -= entry.bytes;
    this.#resume(owner, entry);
    return entry.bytes;
  }

  #resume(owner: UnfinishedOwner, entry: Entry): void {
    if (!entry.paused) return;
    entry.paused = false;
    this.#paused--;
    owner.resume();
  }

  #makeRoom(): void {
    const beforeUs = this.timer.nowUs() - ALONE_US;
    for (const [owner, { sinceUs, bytes }] of this.#entries) {
      if (this.#bytes <= (sinceUs > beforeUs ? 2 * this.#most : this.#most)) return;
      this.#remove(owner);
      this.#consumed(bytes);
      owner.giveWay();
    }
  }

  /**
   * Resumes paused connections, the oldest first: as many as there is room for, but at least `least` while the limit is not
   * exceeded.
   */
  #resumeOldest(least: number): void {
    const room = this.#most - this.#bytes;
    if (this.#paused === 0 || room < 0) return;
    let left = Math.max(least, Math.floor(room / READ_BYTES));
    for (const [owner, entry] of this.#entries) {
      if (!entry.paused) continue;
      this.#resume(owner, entry);
      if (--left === 0 || this.#paused === 0) return;
    }
  }

  #arm(): void {
    if (this.#isArmed) return;
    this.#isArmed = true;
    this.timer.after(LOOK_US, this.#look);
  }

  readonly #look = (): void => {
    this.#isArmed = false;
    if (this.#paused === 0) return;
    if (this.#bytes > this.#most) this.#makeRoom();
    this.#resumeOldest(Math.min(RESUMED_MOST, Math.max(RESUMED_LEAST, this.#paused >> 3)));
    if (this.#paused > 0) this.#arm();
  };
}
