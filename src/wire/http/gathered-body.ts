/** Puts a request body together in one buffer. Works in slices, so that many bodies at once do not hold up other requests. */
import { type EventLoopTurns, turn } from "../../base/pieces.ts";
import type { HttpRequest } from "./request.ts";

const LARGE_BYTES = 65_536;
const FIRST_BYTES = 1_048_576;
const GROWTH = 64;

/** Limits the memory of all bodies that a server is receiving. */
export interface BodyAdmission {
  /**
   * Reserves memory for so many bytes. Undefined if that is done at once. Rejects if there is no memory in time, or if the client
   * leaves.
   */
  enter(bytes: number): Promise<void> | undefined;
  /** Counts bytes that arrived. */
  came(bytes: number): void;
  /** Resolves when more bytes may arrive; undefined means now. Rejects like `enter`. */
  goesOn(): Promise<void> | undefined;
  /** Reports that the whole body has arrived. */
  cameWhole(): void;
}

/**
 * Reads a body of at most `most` bytes. Rejects with the result of `tooLarge` if it is longer, with the error of `admission`,
 * or if the client leaves. Bodies of at most 1 MiB need no admission.
 */
export async function gatheredBody(
  request: Pick<HttpRequest, "headers" | "body">,
  admission: BodyAdmission,
  most: number,
  tooLarge: (most: number) => unknown,
  turns: EventLoopTurns,
): Promise<Uint8Array> {
  const stated = request.headers.get("content-length");
  const expected = stated === null ? most : Number(stated);
  if (stated !== null && expected > FIRST_BYTES) await admission.enter(expected);
  const gathered = new BodyBuffer(expected);
  let counted = 0;
  const take = (part: Uint8Array) => {
    if (gathered.length + part.length > most) throw tooLarge(most);
    gathered.add(part);
  };
  const count = () => {
    admission.came(gathered.length - counted);
    counted = gathered.length;
  };
  const admit = async () => {
    if (stated === null && counted <= FIRST_BYTES && gathered.length > FIRST_BYTES) await admission.enter(expected);
    count();
    await admission.goesOn();
  };
  try {
    // `give` frees the memory of each part at once. Parts of an iteration would stay in memory until the garbage collector runs.
    if (expected > LARGE_BYTES && "give" in request)
      await takeParts(request as unknown as SocketRequest, take, () => turn(turns).then(admit));
    else
      for await (const part of request.body ?? []) {
        take(part);
        await admit();
      }
  } catch (error) {
    gathered.free();
    throw error;
  }
  count();
  admission.cameWhole();
  return gathered.bytes;
}

/** A request from a socket, which can hand its body over without a stream. */
interface SocketRequest {
  /** Hands each part to `to` as it arrives. Resolves after the last part; rejects if the client leaves. */
  give(to: (part: Uint8Array) => void, between: () => Promise<unknown>): Promise<unknown>;
  /** Discards the body, including the rest that is still to arrive. */
  drop(): void;
}

/** Takes each part as it comes. Rejects with the first error of `take` or `between`. */
async function takeParts(
  request: SocketRequest,
  take: (part: Uint8Array) => void,
  between: () => Promise<void>,
): Promise<void> {
  const refusals: unknown[] = [];
  const refuse = (error: unknown) => {
    refusals.push(error);
    request.drop();
  };
  const to = (part: Uint8Array) => {
    if (refusals.length > 0) return;
    try {
      take(part);
    } catch (error) {
      refuse(error);
    }
  };
  const all = request.give(to, () => between().catch(refuse));
  await all.catch((left) => refusals.push(left));
  if (refusals.length > 0) throw refusals[0];
}

/**
 * A buffer that grows up to the expected length of a body, which may never arrive. It grows in large steps, so that little is
 * copied: memory that was never written to costs nothing.
 */
class BodyBuffer {
  length = 0;
  #whole: Buffer = Buffer.alloc(0);

  constructor(private readonly expected: number) {}

  get bytes(): Buffer {
    return this.#whole.subarray(0, this.length);
  }

  /** Frees the memory at once instead of after some garbage collections. */
  free(): void {
    (this.#whole.buffer as ArrayBuffer).transfer(0);
  }

  add(part: Uint8Array): void {
    const needed = this.length + part.length;
    if (needed > this.#whole.length) {
      const wanted = Math.min(this.expected, Math.max(LARGE_BYTES, GROWTH * needed));
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, wanted));
      larger.set(this.bytes);
      this.free();
      this.#whole = larger;
    }
    this.#whole.set(part, this.length);
    this.length = needed;
  }
}
