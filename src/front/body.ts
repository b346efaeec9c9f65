/** How is a request's body read without holding more than is allowed, or waiting longer? */
import { frontLimitsOf } from "../config/front-limits.ts";
import { type Deadlines, deadlines, type Expiring } from "../http/deadlines.ts";
import { frontOf } from "../http/front-of.ts";
import { bodyTooLarge, bodyTooSlow, engineBusy } from "../python/errors.ts";
import type { ErrorAnswer } from "../python/request.ts";
import { type BodyRoom, bodyRoomOf, SMALL_BODY_BYTES } from "./body-room.ts";
import type { OpenAiOptions } from "./front.ts";
import type { Context } from "./http.ts";

/** So long a large body waits for room at most, or half the time that a body may take. */
const ROOM_WAIT_S = 30;

export class Bodies {
  readonly #maxBytes: number;
  readonly #late: Deadlines | null;
  readonly #tooLarge: ErrorAnswer;
  readonly #tooSlow: ErrorAnswer;
  readonly #room: BodyRoom;
  /** Large bodies that wait for room. */
  readonly #crowded: Deadlines | null;

  readonly #witness: OpenAiOptions["witness"];

  constructor({ config, backend, witness }: OpenAiOptions) {
    this.#witness = witness;
    const { bodyTimeoutS } = frontLimitsOf(config);
    this.#maxBytes = config.maxBodyBytes;
    this.#late = deadlines(bodyTimeoutS, backend);
    this.#tooLarge = bodyTooLarge(config.maxBodyBytes);
    this.#tooSlow = bodyTooSlow(bodyTimeoutS);
    this.#room = bodyRoomOf(config);
    this.#crowded = deadlines(bodyTimeoutS > 0 ? Math.min(bodyTimeoutS / 2, ROOM_WAIT_S) : ROOM_WAIT_S, backend);
  }

  /** The body, or the answer to one that is too large or too slow. Rejected when the client leaves. */
  read(context: Context): Promise<Uint8Array | ErrorAnswer> | Uint8Array | ErrorAnswer {
    const reading = this.#read(context);
    if (this.#witness === undefined) return reading;
    const seen = (body: Uint8Array | ErrorAnswer) => {
      if (!("status" in body)) this.#witness?.body(context.request, body);
      return body;
    };
    return reading instanceof Promise ? reading.then(seen) : seen(reading);
  }

  #read(context: Context): Promise<Uint8Array | ErrorAnswer> | Uint8Array | ErrorAnswer {
    const { request } = context;
    const stated = request.headers.get("content-length");
    if (Number(stated) > this.#maxBytes) return this.#tooLarge;
    const whole = stated === null ? null : frontOf(context).body(request);
    if (whole) return whole;
    if (Number(stated) > SMALL_BODY_BYTES) return this.#large(request, Number(stated));
    const body = stated === null ? this.#unstated(request) : request.bytes();
    return this.#inTime(body, this.#late);
  }

  /** When there is room for it; the time that it may take begins then. */
  async #large(request: Request, bytes: number): Promise<Uint8Array | ErrorAnswer> {
    request.signal.addEventListener("abort", () => this.#room.leave(request));
    const entering = this.#room.enter(request, bytes);
    if (entering !== true) {
      const granted = await this.#inTime(entering, this.#crowded);
      if (granted === false) throw new Error("the client left");
      if (granted !== true) {
        this.#room.leave(request);
        return engineBusy;
      }
    }
    return this.#inTime(request.bytes(), this.#late);
  }

  async #unstated(request: Request): Promise<Uint8Array | ErrorAnswer> {
    const large = async () => {
      request.signal.addEventListener("abort", () => this.#room.leave(request));
      await this.#room.enter(request, this.#maxBytes);
    };
    return (await readParts(request, this.#maxBytes, large)) ?? this.#tooLarge;
  }

  #inTime<T>(body: Promise<T>, late: Deadlines | null): Promise<T | ErrorAnswer> {
    if (late === null) return body;
    return new Promise((resolve, reject) => {
      const watched: Expiring = { expire: () => resolve(this.#tooSlow) };
      late.watch(watched);
      body.then(
        (read) => {
          late.forget(watched);
          resolve(read);
        },
        (reason) => {
          late.forget(watched);
          reject(reason);
        },
      );
    });
  }
}

/** `large`: waited for when the body turns out to be large. null: longer than `maxBytes`, of which a body without a stated length is read no more. */
async function readParts(request: Request, maxBytes: number, large: () => Promise<void>): Promise<Uint8Array | null> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of request.body ?? []) {
    const wasLarge = bytes > SMALL_BODY_BYTES;
    bytes += part.length;
    if (bytes > maxBytes) return null;
    parts.push(part);
    if (!wasLarge && bytes > SMALL_BODY_BYTES) await large();
  }
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
}
