/**
 * How many bytes of bodies may there be at once? A large body waits unread until what the others have taken is free again:
 * its connection is not read meanwhile, so the client waits as at a slow server.
 */
import type { ServeConfig } from "../config/types.ts";

/** Bodies up to this have no share: connections are limited otherwise. */
export const SMALL_BODY_BYTES = 2 ** 20;

interface Waiting {
  readonly request: object;
  readonly bytes: number;
  readonly go: (granted: boolean) => void;
}

export class BodyRoom {
  readonly #most: number;
  readonly #taken = new Map<object, number>();
  #waiting: Waiting[] = [];
  #used = 0;

  /** `most`: bytes of all large bodies; one that is larger goes alone. */
  constructor(most: number) {
    this.#most = most;
  }

  /** Settles when there is room, in the order of asking; false: `leave` came first. True at once where there is room. */
  enter(request: object, bytes: number): Promise<boolean> | true {
    if (this.#waiting.length === 0 && this.#fits(bytes)) {
      this.#take(request, bytes);
      return true;
    }
    return new Promise((go) => this.#waiting.push({ request, bytes, go }));
  }

  /** The request's body is read and used, or will not be. */
  leave(request: object): void {
    const bytes = this.#taken.get(request);
    if (bytes === undefined) {
      if (this.#waiting.length === 0) return;
      const left = this.#waiting.filter((one) => one.request === request);
      this.#waiting = this.#waiting.filter((one) => one.request !== request);
      for (const { go } of left) go(false);
    } else {
      this.#taken.delete(request);
      this.#used -= bytes;
    }
    this.#next();
  }

  #fits(bytes: number): boolean {
    return this.#used === 0 || this.#used + bytes <= this.#most;
  }

  #take(request: object, bytes: number): void {
    this.#taken.set(request, bytes);
    this.#used += bytes;
  }

  #next(): void {
    for (let first = this.#waiting[0]; first !== undefined && this.#fits(first.bytes); first = this.#waiting[0]) {
      this.#waiting.shift();
      this.#take(first.request, first.bytes);
      first.go(true);
    }
  }
}

const rooms = new WeakMap<ServeConfig, BodyRoom>();

/** The room of a server: one of the largest bodies, of which several copies are made while it is read. */
export function bodyRoomOf(config: ServeConfig): BodyRoom {
  const room = rooms.get(config) ?? new BodyRoom(config.maxBodyBytes);
  rooms.set(config, room);
  return room;
}
