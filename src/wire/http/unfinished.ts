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
const LOOKED_AT_LEAST = 8;
const LOOKED_AT_MOST = 64;
/**
 * Bytes that one read of a socket may bring, and so the room that a resumed connection may need before it can be paused again.
 */
const READ_BYTES = 524_288;

/** The owner of a request that has arrived only in part. */
export interface Unfinishing {
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

export class Unfinished {
  readonly #most: number;
  readonly #timer: Required<Timer>;
  /** In the order in which the requests began. */
  readonly #entries = new Map<Unfinishing, Entry>();
  #bytes = 0;
  #paused = 0;
  #armed = false;

  readonly #consumed: (bytes: number) => void;

  /** `consumed`: called with the number of bytes that became garbage. */
  constructor(
    timer: Required<Timer>,
    { most = UNFINISHED_MOST_BYTES, consumed = () => {} }: { most?: number; consumed?: (bytes: number) => void } = {},
  ) {
    this.#timer = timer;
    this.#most = most;
    this.#consumed = consumed;
  }

  /** Bytes of all unfinished requests together. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Sets the number of bytes kept of an unfinished request. */
  holds(one: Unfinishing, bytes: number): void {
    let entry = this.#entries.get(one);
    if (entry === undefined) {
      entry = { sinceUs: this.#timer.nowUs(), bytes: 0, paused: false };
      this.#entries.set(one, entry);
    }
    this.#bytes += bytes - entry.bytes;
    entry.bytes = bytes;
    if (this.#bytes <= this.#most) return;
    this.#makeRoom();
    if (this.#bytes <= this.#most || entry.paused || !this.#entries.has(one)) return;
    entry.paused = true;
    this.#paused++;
    one.pause();
    this.#arm();
  }

  /** Removes a request that is complete, or that is counted elsewhere from now on. */
  leaves(one: Unfinishing): void {
    if (this.#take(one) !== null) this.#goOn(1);
  }

  /** Removes a request whose rest will not arrive. */
  drops(one: Unfinishing): void {
    const bytes = this.#take(one);
    if (bytes === null) return;
    this.#consumed(bytes);
    this.#goOn(1);
  }

  #take(one: Unfinishing): number | null {
    const entry = this.#entries.get(one);
    if (entry === undefined) return null;
    this.#entries.delete(one);
    this.#bytes -= entry.bytes;
    this.#resume(one, entry);
    return entry.bytes;
  }

  #resume(one: Unfinishing, entry: Entry): void {
    if (!entry.paused) return;
    entry.paused = false;
    this.#paused--;
    one.resume();
  }

  #makeRoom(): void {
    const beforeUs = this.#timer.nowUs() - ALONE_US;
    for (const [one, { sinceUs, bytes }] of this.#entries) {
      if (this.#bytes <= (sinceUs > beforeUs ? 2 * this.#most : this.#most)) return;
      this.#take(one);
      this.#consumed(bytes);
      one.giveWay();
    }
  }

  /**
   * Resumes paused connections, the oldest first: as many as there is room for, but at least `least` while the limit is not
   * exceeded.
   */
  #goOn(least: number): void {
    const room = this.#most - this.#bytes;
    if (this.#paused === 0 || room < 0) return;
    let left = Math.max(least, Math.floor(room / READ_BYTES));
    for (const [one, entry] of this.#entries) {
      if (!entry.paused) continue;
      this.#resume(one, entry);
      if (--left === 0 || this.#paused === 0) return;
    }
  }

  #arm(): void {
    if (this.#armed) return;
    this.#armed = true;
    this.#timer.after(LOOK_US, this.#look);
  }

  readonly #look = (): void => {
    this.#armed = false;
    if (this.#paused === 0) return;
    if (this.#bytes > this.#most) this.#makeRoom();
    this.#goOn(Math.min(LOOKED_AT_MOST, Math.max(LOOKED_AT_LEAST, this.#paused >> 3)));
    if (this.#paused > 0) this.#arm();
  };
}
