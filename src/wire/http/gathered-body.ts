/** How does a body become one piece, where many may come at once and none may hold others up? */
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
  { headers, body }: Pick<HttpRequest, "headers" | "body">,
  coming: WaitingBytes,
  most: number,
  refusals: BodyRefusals,
): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  const said = Number(headers.get("content-length") ?? 0);
  // A large one is put where it belongs as it comes: putting it together at the end would hold others up.
  const whole = said > LARGE_BYTES ? new Gathered(said) : null;
  try {
    for await (const part of body ?? []) {
      bytes += part.length;
      coming.held(part.length);
      if (bytes > most) throw refusals.tooLarge(most);
      if (coming.exceeded) throw refusals.tooMany();
      if (whole === null) parts.push(part);
      else whole.add(part);
    }
  } finally {
    coming.held(-bytes);
  }
  if (whole !== null) return whole.bytes;
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
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

  add(part: Uint8Array): void {
    const needed = this.#length + part.length;
    if (needed > this.#whole.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, Math.min(this.#said, GROWTH * needed)));
      larger.set(this.bytes);
      this.#whole = larger;
    }
    this.#whole.set(part, this.#length);
    this.#length = needed;
  }
}
