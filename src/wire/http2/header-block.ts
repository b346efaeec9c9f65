/** Collects the parts of one header block from a HEADERS frame and its CONTINUATION frames, within limits: RFC 9113, section 4.3. */
import { ConnectionError, Http2Code } from "./frames.ts";

/** Limits of one header block: its bytes, and the frames that carry it. */
const BYTES_MOST = 65_536;
const FRAMES_MOST = 64;

export class HeaderBlock {
  readonly #parts: Uint8Array[] = [];
  #bytes = 0;

  constructor(
    /** Stream that the block belongs to. */
    readonly id: number,
    /** True if the stream's request ends with the block. */
    readonly ends: boolean,
  ) {}

  /** Appends the part of a frame. Throws a `ConnectionError` above the limits. */
  add(part: Uint8Array): void {
    this.#parts.push(part);
    this.#bytes += part.length;
    if (this.#bytes > BYTES_MOST || this.#parts.length > FRAMES_MOST)
      throw new ConnectionError(Http2Code.Calm, `header block exceeds ${BYTES_MOST} bytes or ${FRAMES_MOST} frames`);
  }

  /** Returns the bytes of the whole block. */
  whole(): Uint8Array {
    return this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts);
  }
}
