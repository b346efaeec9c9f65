/** How is a request's body read without holding more than is allowed, or waiting longer? */
import { frontLimitsOf } from "../config/front-limits.ts";
import { type Deadlines, deadlines, type Expiring } from "../http/deadlines.ts";
import { frontOf } from "../http/front-of.ts";
import { bodyTooLarge, bodyTooSlow } from "../python/errors.ts";
import type { ErrorAnswer } from "../python/request.ts";
import type { OpenAiOptions } from "./front.ts";
import type { Context } from "./http.ts";

export class Bodies {
  readonly #maxBytes: number;
  readonly #late: Deadlines | null;
  readonly #tooLarge: ErrorAnswer;
  readonly #tooSlow: ErrorAnswer;

  constructor({ config, backend }: OpenAiOptions) {
    const { bodyTimeoutS } = frontLimitsOf(config);
    this.#maxBytes = config.maxBodyBytes;
    this.#late = deadlines(bodyTimeoutS, backend);
    this.#tooLarge = bodyTooLarge(config.maxBodyBytes);
    this.#tooSlow = bodyTooSlow(bodyTimeoutS);
  }

  /** The body, or the answer to one that is too large or too slow. Rejected when the client leaves. */
  read(context: Context): Promise<Uint8Array | ErrorAnswer> | Uint8Array | ErrorAnswer {
    const { request } = context;
    const stated = request.headers.get("content-length");
    if (Number(stated) > this.#maxBytes) return this.#tooLarge;
    const whole = stated === null ? null : frontOf(context).body(request);
    if (whole) return whole;
    const body = stated === null ? this.#unstated(request) : request.bytes();
    return this.#late === null ? body : this.#inTime(body, this.#late);
  }

  async #unstated(request: Request): Promise<Uint8Array | ErrorAnswer> {
    return (await readParts(request, this.#maxBytes)) ?? this.#tooLarge;
  }

  #inTime(body: Promise<Uint8Array | ErrorAnswer>, late: Deadlines): Promise<Uint8Array | ErrorAnswer> {
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

/** null: longer than `maxBytes`, of which a body without a stated length is read no more. */
async function readParts(request: Request, maxBytes: number): Promise<Uint8Array | null> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of request.body ?? []) {
    bytes += part.length;
    if (bytes > maxBytes) return null;
    parts.push(part);
  }
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
}
