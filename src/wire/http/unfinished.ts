/**
 * How many bytes of heads and small bodies may there be whose rest is still to come? Beyond that nobody reads more of them:
 * who began a second ago or longer gives way, the one that began first before the others, and where that is nobody, the
 * client waits as at a slow server. Large bodies have a room of their own (`servers/openai/front/body-room.ts`).
 */
import type { Timer } from "./deadlines.ts";

/** Bytes of all together, at a server. */
export const UNFINISHED_MOST_BYTES = 64 * 2 ** 20;
/** Bodies up to this count here. */
export const SMALL_BODY_BYTES = 2 ** 20;
/** What is kept of bytes that came together costs so much besides. */
export const PART_BYTES = 128;
/** Parts of bodies, such as chunks, after which a connection is not read until the next turn of the event loop. */
export const PARTS_OF_A_TURN = 2048;
/** Nobody gives way before, unless there is twice as much: HTTP/2 takes what a stream may send even where it is paused. */
const ALONE_US = 1_000_000;
const LOOK_US = 100_000;
/** Read again at each look at least, though there is hardly any room: most of them bring nothing. */
const LOOKED_AT_LEAST = 8;
const LOOKED_AT_MOST = 64;
/** As much may come of one that is read again, before it can be paused: a read of the socket. */
const READ_BYTES = 524_288;

/** Somebody part of whose request has come. */
export interface Unfinishing {
  pause(): void;
  resume(): void;
  /** Is to give way: no more of the request is kept. */
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
  /** In the order of beginning. */
  readonly #entries = new Map<Unfinishing, Entry>();
  #bytes = 0;
  #paused = 0;
  #armed = false;

  readonly #consumed: (bytes: number) => void;

  /** `consumed`: is told of bytes that are garbage now. */
  constructor(
    timer: Required<Timer>,
    { most = UNFINISHED_MOST_BYTES, consumed = () => {} }: { most?: number; consumed?: (bytes: number) => void } = {},
  ) {
    this.#timer = timer;
    this.#most = most;
    this.#consumed = consumed;
  }

  /** Bytes of all together. */
  get bytes(): number {
    return this.#bytes;
  }

  /** So many bytes are there of a request that is not whole. */
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

  /** The request is whole, or counts elsewhere. */
  leaves(one: Unfinishing): void {
    if (this.#take(one) !== null) this.#goOn(1);
  }

  /** The rest of it will not come. */
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

  /** Has those read again for which there is room, the first ones: so many at least, when there is any. */
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
