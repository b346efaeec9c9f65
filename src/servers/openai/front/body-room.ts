/**
 * Limits the bytes of large request bodies in memory. If a body has no room, the server does not read its connection, so that the
 * client waits as for a slow server. An admitted body reserves its whole length for one second. After that, while other bodies
 * wait, its reservation shrinks to the bytes that have arrived, and the rest of the body queues after the others.
 */

import type { Timer } from "../../../wire/http/deadlines.ts";
import type { OpenAiServerConfig } from "../request/openai-config.ts";

/** Time for which an admitted body keeps its whole reservation, in microseconds. */
const WHOLE_US = 1_000_000;

/** A body, or the rest of a body, that waits for room. */
interface QueuedBody {
  readonly request: object;
  readonly bytes: number;
  readonly go: (granted: boolean) => void;
}

interface AdmittedBody {
  bytes: number;
  /** Bytes that have arrived. */
  came: number;
  /** Reserved bytes: the whole length, or the bytes that had arrived when the reservation shrank. */
  share: number;
  /** Time at which the reservation last grew. */
  sinceUs: number;
}

export class BodyRoom {
  readonly #inside = new Map<object, AdmittedBody>();
  #waiting: QueuedBody[] = [];
  /** True while no body is admitted and none waits, so that `leave` has nothing to do. */
  isEmpty = true;
  #used = 0;
  /** True while a timer is set. */
  #looking = false;

  /** `most`: bytes that all large bodies may reserve. A larger body is admitted if no admitted one has its whole reservation. */
  constructor(
    private readonly most: number,
    private readonly backend: Timer,
  ) {}

  /**
   * Reserves memory for a body of `bytes`. Returns true if the memory is free now, otherwise a promise. The promise resolves to
   * true once the memory is reserved, and to false if `leave` is called before that. Bodies get memory in the order of the calls.
   */
  enter(request: object, bytes: number): Promise<boolean> | true {
    this.isEmpty = false;
    if (this.#waiting.length === 0 && this.#fits(bytes)) {
      this.#take(request, bytes);
      return true;
    }
    return this.#wait(request, bytes);
  }

  /** Counts bytes of a body that have arrived. */
  came(request: object, bytes: number): void {
    const inside = this.#inside.get(request);
    if (inside !== undefined) inside.came += bytes;
  }

  /** Waits until the next part may be read. Returns the same values as `enter`. A body that never entered has no limit. */
  goesOn(request: object): Promise<boolean> | true {
    const inside = this.#inside.get(request);
    if (inside === undefined || inside.share > inside.came || inside.came >= inside.bytes) return true;
    return this.#wait(request, inside.bytes - inside.share);
  }

  /** Sets the reservation of a body to its real length after its last byte has arrived, even if a larger one was expected. */
  cameWhole(request: object): void {
    const inside = this.#inside.get(request);
    if (inside === undefined) return;
    this.#used += inside.came - inside.share;
    inside.bytes = inside.share = inside.came;
    this.#next();
  }

  /** Frees the room of a request whose body is used, or will not be. Its waits end with false. */
  leave(request: object): void {
    if (this.isEmpty) return;
    const left = this.#waiting.filter((body) => body.request === request);
    if (left.length > 0) this.#waiting = this.#waiting.filter((body) => body.request !== request);
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
    if (this.#used + bytes <= this.most) return true;
    // Otherwise no body could ever complete: each would wait for the room of the others.
    return this.#used <= this.most && ![...this.#inside.values()].some(isWhole);
  }

  #take(request: object, bytes: number): void {
    const inside = this.#inside.get(request) ?? { bytes, came: 0, share: 0, sinceUs: 0 };
    inside.share += bytes;
    inside.sinceUs = this.backend.nowUs();
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

  /** While bodies wait: shrinks reservations of bodies that did not arrive in time, now and again after `WHOLE_US`. */
  readonly #look = (): void => {
    if (this.#looking || this.#waiting.length === 0) return;
    const nowUs = this.backend.nowUs();
    for (const inside of this.#inside.values()) {
      if (inside.came >= inside.bytes || nowUs - inside.sinceUs < WHOLE_US) continue;
      this.#used -= inside.share - inside.came;
      inside.share = inside.came;
    }
    this.#next();
    if (this.#waiting.length === 0 || !this.backend.after) return;
    this.#looking = true;
    this.backend.after(WHOLE_US, () => {
      this.#looking = false;
      this.#look();
    });
  };
}

const isWhole = ({ share, bytes }: AdmittedBody) => share >= bytes;

const rooms = new WeakMap<OpenAiServerConfig, BodyRoom>();

/** Returns the room of a server. It holds one body of the largest size, because reading makes several copies of a body. */
export function bodyRoomOf(config: OpenAiServerConfig, backend: Timer): BodyRoom {
  const room = rooms.get(config) ?? new BodyRoom(config.listen.maxBodyBytes, backend);
  rooms.set(config, room);
  return room;
}
