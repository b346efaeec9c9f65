/**
 * Limits the memory of large request bodies over HTTP, of all requests of a server together.
 *
 * A body of more than 1 MiB is read when there is room for it. It counts until its request is answered, because its bytes
 * or the tensors made of them exist until then. Parsing takes several times the memory of the body, so that there is a
 * smaller room for the bodies that are parsed at the same time.
 */
import type { EventLoopTurns } from "../../../base/pieces.ts";
import { TaskLimiter } from "../../../wire/grpc/task-limiter.ts";
import { type Deadlines, deadlines, type TimedItem } from "../../../wire/http/deadlines.ts";
import { type BodyAdmission, gatheredBody } from "../../../wire/http/gathered-body.ts";
import type { HttpRequest } from "../../../wire/http/request.ts";
import type { HttpFront } from "../../../wire/http/sink.ts";
import { SMALL_BODY_BYTES } from "../../../wire/http/unfinished.ts";
import { BodyRoom } from "../../openai/front/body-room.ts";
import { TritonError } from "../model-config/status.ts";

/**
 * Most bytes of large bodies, from the start of reading to the answer. JSON counts twice, because tensors and answers are
 * copies of it. A larger body is read alone.
 */
const HELD_BYTES_MOST = 256 * 2 ** 20;
const JSON_WEIGHT = 2;
/** Bytes of large bodies that are parsed at the same time. A larger one is parsed alone. */
const PARSED_BYTES_MOST = 64 * 2 ** 20;
const PARSED_AT_A_TIME = 4;
/** Seconds that a body waits for memory, even after a part of it has arrived. */
const ROOM_WAIT_S = 120;

/** The memory limits of a server. */
export class HeldBodies {
  readonly held: BodyRoom;
  readonly parsed: BodyRoom;
  /** Ends the waits for memory after the limit. Null without timers. */
  readonly late: Deadlines | null;
  /** Small bodies that are parsed in pieces: each may have its objects half made. */
  readonly parsing = new TaskLimiter(PARSED_AT_A_TIME);

  /** `most`: bytes of large bodies from the start of reading to the answer. */
  constructor(
    readonly turns: EventLoopTurns,
    most = HELD_BYTES_MOST,
  ) {
    this.held = new BodyRoom(most, turns);
    this.parsed = new BodyRoom(PARSED_BYTES_MOST, turns);
    this.late = deadlines(ROOM_WAIT_S, turns);
  }
}

/** Counts the memory of one body. Methods that reject do so with a `TritonError` if memory does not become free in time. */
export class HeldBody implements BodyAdmission {
  #isWhole = false;
  #isCounted = false;
  #bytes = 0;
  /** Number of times that each byte counts. */
  #weight = JSON_WEIGHT;

  constructor(
    private readonly request: HttpRequest,
    private readonly rooms: HeldBodies,
  ) {}

  /**
   * Returns the whole body, or a promise of it if it has not arrived yet. Throws or rejects with the result of `tooLarge` if it has
   * more than `most` bytes. Rejects if the client leaves.
   */
  read(front: HttpFront, most: number, tooLarge: (most: number) => unknown): Uint8Array | Promise<Uint8Array> {
    const whole = front.body(this.request);
    if ((whole?.length ?? Number(this.request.headers.get("content-length") ?? 0)) > most) throw tooLarge(most);
    return whole ?? gatheredBody(this.request, this, most, tooLarge, this.rooms.turns);
  }

  enter(bytes: number): Promise<void> | undefined {
    this.#isCounted = true;
    const json = Number(this.request.headers.get("inference-header-content-length") ?? bytes);
    this.#weight = json >= 0 && json < bytes ? 1 + ((JSON_WEIGHT - 1) * json) / bytes : JSON_WEIGHT;
    this.request.signal.addEventListener("abort", () => this.#isWhole || this.leave());
    return this.#admitted(this.rooms.held.enter(this, bytes * this.#weight));
  }

  came(bytes: number): void {
    this.#bytes += bytes;
    if (this.#isCounted) this.rooms.held.came(this, bytes * this.#weight);
  }

  goesOn(): Promise<void> | undefined {
    return this.#isCounted ? this.#admitted(this.rooms.held.goesOn(this)) : undefined;
  }

  cameWhole(): void {
    this.#isWhole = true;
    if (this.#isCounted) this.rooms.held.cameWhole(this);
  }

  /**
   * Replaces the body by the bytes that `make` creates, at most `most`, for example its decompressed content. They count
   * instead of the body.
   */
  async replace(most: number, make: () => Promise<Uint8Array> | Uint8Array): Promise<Uint8Array> {
    this.leave();
    await this.enter(most);
    const made = await make();
    this.came(made.length);
    this.cameWhole();
    return made;
  }

  /** Waits until memory is free for work that needs several times the size of the bytes, then does it. */
  async parse<T>(bytes: number, work: () => Promise<T>): Promise<T> {
    if (bytes <= SMALL_BODY_BYTES) return this.rooms.parsing.run(work);
    await this.rooms.parsed.enter(this, bytes);
    this.rooms.parsed.came(this, bytes);
    try {
      return await work();
    } finally {
      this.rooms.parsed.leave(this);
    }
  }

  /** Frees the memory of a large body at once instead of at a later garbage collection. Nothing may reference the bytes. */
  free({ buffer }: Uint8Array): void {
    if (this.#isCounted && this.#isWhole) (buffer as ArrayBuffer).transfer(0);
  }

  /** Frees the reserved memory, because the request was answered or was abandoned. */
  leave(): void {
    if (!this.#isCounted) return;
    this.#isCounted = false;
    this.rooms.held.leave(this);
    this.rooms.turns.consumed?.(this.#bytes);
  }

  #admitted(entering: Promise<boolean> | true): Promise<void> | undefined {
    return entering === true ? undefined : this.#inTime(entering);
  }

  #inTime(entering: Promise<boolean>): Promise<void> {
    return new Promise((resolve, reject) => {
      const refused = new TritonError("UNAVAILABLE", "too many bytes of bodies come at once");
      const watched: TimedItem = {
        expire: () => {
          reject(refused);
          this.leave();
        },
      };
      this.rooms.late?.watch(watched);
      void entering.then((isGranted) => {
        this.rooms.late?.forget(watched);
        if (isGranted) resolve();
        else reject(new Error("the client left"));
      });
    });
  }
}
