/** Puts a body together, where many may come at once and none may hold others up. */
import { type EventLoopTurns, turn } from "../../base/pieces.ts";
import type { HttpRequest } from "./request.ts";
import type { WaitingBytes } from "./waiting-bytes.ts";

const LARGE_BYTES = 65_536;
const FIRST_BYTES = 1_048_576;
const GROWTH = 4;

/** What is thrown where it cannot be taken. */
export interface BodyRefusals {
  /** More than `most` bytes. */
  readonly tooLarge: (most: number) => unknown;
  /** More of all bodies than may come at once. */
  readonly tooMany: () => unknown;
}

/** `coming`: bytes of all bodies that have not come whole. Rejects with what `refusals` gives, or when the client leaves. */
export async function gatheredBody(
  request: Pick<HttpRequest, "headers" | "body">,
  coming: WaitingBytes,
  most: number,
  refusals: BodyRefusals,
  turns: EventLoopTurns,
): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  const said = Number(request.headers.get("content-length") ?? 0);
  // A large one is put where it belongs as it comes: putting it together at the end would hold others up.
  const whole = said > LARGE_BYTES ? new Gathered(said) : null;
  const take = (part: Uint8Array) => {
    bytes += part.length;
    coming.held(part.length);
    if (bytes > most) throw refusals.tooLarge(most);
    if (coming.exceeded) throw refusals.tooMany();
    if (whole === null) parts.push(part);
    else whole.add(part);
  };
  try {
    // The memory of parts that are given is free at once, which the host would let gather.
    if (whole !== null && "give" in request) await given(request as unknown as GivingRequest, take, turns);
    else for await (const part of request.body ?? []) take(part);
  } catch (error) {
    whole?.free();
    throw error;
  } finally {
    coming.held(-bytes);
  }
  if (whole !== null) return whole.bytes;
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
}

/** The part of a socket's request that hands its body over without a stream. */
interface GivingRequest {
  /** Hands each part to `to` as it comes. Settles behind the last one; rejects when the client leaves. */
  give(to: (part: Uint8Array) => void, between: () => Promise<unknown>): Promise<unknown>;
  /** Throws away what is there and what comes. */
  drop(): void;
}

/** Takes each part as it comes. What `take` throws ends that, and rejects. */
async function given(request: GivingRequest, take: (part: Uint8Array) => void, turns: EventLoopTurns): Promise<void> {
  const refusals: unknown[] = [];
  const to = (part: Uint8Array) => {
    if (refusals.length > 0) return;
    try {
      take(part);
    } catch (error) {
      refusals.push(error);
      request.drop();
    }
  };
  const all = request.give(to, () => turn(turns));
  await all.catch((left) => refusals.push(left));
  if (refusals.length > 0) throw refusals[0];
}

/** Grows fourfold up to what was said: what was said may never come. */
class Gathered {
  readonly #said: number;
  #whole: Buffer;
  #length = 0;

  constructor(said: number) {
    this.#said = said;
    this.#whole = Buffer.allocUnsafeSlow(Math.min(said, FIRST_BYTES));
  }

  get bytes(): Buffer {
    return this.#whole.subarray(0, this.#length);
  }

  /** Gives the memory back, which the host would do some collections later. */
  free(): void {
    (this.#whole.buffer as ArrayBuffer).transfer(0);
  }

  add(part: Uint8Array): void {
    const needed = this.#length + part.length;
    if (needed > this.#whole.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, Math.min(this.#said, GROWTH * needed)));
      larger.set(this.bytes);
      this.free();
      this.#whole = larger;
    }
    this.#whole.set(part, this.#length);
    this.#length = needed;
  }
}
