/**
 * How many bytes of bodies may there be at once? A large body waits unread until what the others have taken is free again:
 * its connection is not read meanwhile, so the client waits as at a slow server. Who is let in has room for all of its body
 * for a second; from then on, while others wait, for as much as has come, and the rest of it waits behind them.
 */

import type { Timer } from "../../../wire/http/deadlines.ts";
import type { OpenAiServerConfig } from "../request/openai-config.ts";

/** So long nobody else has what is still to come of a body. */
const ALONE_US = 1_000_000;

interface Waiting {
  readonly request: object;
  readonly bytes: number;
  readonly go: (granted: boolean) => void;
}

/** A body that was let in. */
interface Inside {
  bytes: number;
  came: number;
  /** What counts of it: all, or as much as had come. */
  share: number;
  sinceUs: number;
}

export class BodyRoom {
  readonly #most: number;
  readonly #backend: Timer;
  readonly #inside = new Map<object, Inside>();
  #waiting: Waiting[] = [];
  /** True while no body is inside and none waits, so that `leave` has nothing to do. */
  isEmpty = true;
  #used = 0;
  #looking = false;

  /** `most`: bytes of all large bodies; one that is larger goes alone. */
  constructor(most: number, backend: Timer) {
    this.#most = most;
    this.#backend = backend;
  }

  /** Settles when there is room, in the order of asking; false: `leave` came first. True at once where there is room. */
  enter(request: object, bytes: number): Promise<boolean> | true {
    this.isEmpty = false;
    if (this.#waiting.length === 0 && this.#fits(bytes)) {
      this.#take(request, bytes);
      return true;
    }
    return this.#wait(request, bytes);
  }

  /** More of a body came. */
  came(request: object, bytes: number): void {
    const inside = this.#inside.get(request);
    if (inside !== undefined) inside.came += bytes;
  }

  /** Whether the next part may come, as `enter`. Bodies that never entered have all the room they want. */
  goesOn(request: object): Promise<boolean> | true {
    const inside = this.#inside.get(request);
    if (inside === undefined || inside.share > inside.came || inside.came >= inside.bytes) return true;
    return this.#wait(request, inside.bytes - inside.share);
  }

  /** All of the body has come. From now on its share is its length, even if a larger body was expected. */
  cameWhole(request: object): void {
    const inside = this.#inside.get(request);
    if (inside === undefined) return;
    this.#used += inside.came - inside.share;
    inside.bytes = inside.share = inside.came;
    this.#next();
  }

  /** The request's body is read and used, or will not be. */
  leave(request: object): void {
    if (this.isEmpty) return;
    const left = this.#waiting.filter((one) => one.request === request);
    if (left.length > 0) this.#waiting = this.#waiting.filter((one) => one.request !== request);
    this.#used -= this.#inside.get(request)?.share ?? 0;
    this.#inside.delete(request);
    for (const { go } of left) go(false);
    this.#next();
    this.isEmpty = this.#waiting.length === 0 && this.#inside.size === 0;
  }

  #wait(request: object, bytes: number): Promise<boolean> {
    const waiting = new Promise<boolean>((go) => this.#waiting.push({ request, bytes, go }));
    this.#look();
    return waiting;
  }

  #fits(bytes: number): boolean {
    if (this.#used + bytes <= this.#most) return true;
    // Nobody would ever be whole.
    return this.#used <= this.#most && ![...this.#inside.values()].some(isWhole);
  }

  #take(request: object, bytes: number): void {
    const inside = this.#inside.get(request) ?? { bytes, came: 0, share: 0, sinceUs: 0 };
    inside.share += bytes;
    inside.sinceUs = this.#backend.nowUs();
    this.#inside.set(request, inside);
    this.#used += bytes;
  }

  #next(): void {
    for (let first = this.#waiting[0]; first !== undefined && this.#fits(first.bytes); first = this.#waiting[0]) {
      this.#waiting.shift();
      this.#take(first.request, first.bytes);
      first.go(true);
    }
  }

  /** While somebody waits: takes back what has not come in time. */
  readonly #look = (): void => {
    if (this.#looking || this.#waiting.length === 0) return;
    const nowUs = this.#backend.nowUs();
    for (const inside of this.#inside.values()) {
      if (inside.came >= inside.bytes || nowUs - inside.sinceUs < ALONE_US) continue;
      this.#used -= inside.share - inside.came;
      inside.share = inside.came;
    }
    this.#next();
    if (this.#waiting.length === 0 || !this.#backend.after) return;
    this.#looking = true;
    this.#backend.after(ALONE_US, () => {
      this.#looking = false;
      this.#look();
    });
  };
}

const isWhole = ({ share, bytes }: Inside) => share >= bytes;

const rooms = new WeakMap<OpenAiServerConfig, BodyRoom>();

/** The room of a server: one of the largest bodies, of which several copies are made while it is read. */
export function bodyRoomOf(config: OpenAiServerConfig, backend: Timer): BodyRoom {
  const room = rooms.get(config) ?? new BodyRoom(config.listen.maxBodyBytes, backend);
  rooms.set(config, room);
  return room;
}
