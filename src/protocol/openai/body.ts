/** How is a request's body read without holding more than is allowed, or waiting longer? */
import { doorOf } from "../../config/door.ts";
import { type Deadlines, deadlines, type Expiring } from "../deadlines.ts";
import { bodyTooLarge, bodyTooSlow } from "../errors.ts";
import type { ErrorAnswer } from "../request.ts";
import type { OpenAiOptions } from "./front.ts";
import type { Context } from "./http.ts";

export class Bodies {
  readonly #maxBytes: number;
  readonly #late: Deadlines | null;
  readonly #tooLarge: ErrorAnswer;
  readonly #tooSlow: ErrorAnswer;

  constructor({ config, backend }: OpenAiOptions) {
    const { bodyTimeoutS } = doorOf(config);
    this.#maxBytes = config.maxBodyBytes;
    this.#late = deadlines(bodyTimeoutS, backend);
    this.#tooLarge = bodyTooLarge(config.maxBodyBytes);
    this.#tooSlow = bodyTooSlow(bodyTimeoutS);
  }

  /** The body, or the answer to one that is too large or too slow. Rejected when the client leaves. */
  read({ request, server }: Context): Promise<Uint8Array | ErrorAnswer> {
    // A slow body has our limit, not that of a silent connection.
    server?.timeout(request, 0);
    const late = this.#late;
    const body = readBody(request, this.#maxBytes);
    if (late === null) return body.then((bytes) => bytes ?? this.#tooLarge);
    return new Promise((resolve, reject) => {
      const watched: Expiring = { expire: () => resolve(this.#tooSlow) };
      late.watch(watched);
      body.then(
        (bytes) => {
          late.forget(watched);
          resolve(bytes ?? this.#tooLarge);
        },
        (reason) => {
          late.forget(watched);
          reject(reason);
        },
      );
    });
  }
}

/** null: longer than `maxBytes`; a stated length is refused unread, a chunked body as soon as it is too long. */
async function readBody(request: Request, maxBytes: number): Promise<Uint8Array | null> {
  const stated = request.headers.get("content-length");
  if (stated !== null) return Number(stated) > maxBytes ? null : request.bytes();
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of request.body ?? []) {
    bytes += part.length;
    if (bytes > maxBytes) return null;
    parts.push(part);
  }
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
}
