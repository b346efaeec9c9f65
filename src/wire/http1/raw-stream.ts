/**
 * Writes the body of an answer whose head its owner has written. A proxy needs this, because it keeps the head of another server.
 */
import type { SinkEvents } from "../http/sink.ts";
import { type DrainListener, type Output, putSize, roomFor } from "./stream.ts";

/**
 * Way in which the client finds the end of the body. "length": the head has a Content-Length, or says that there is no body.
 * "close": the connection ends with the body, for clients of HTTP/1.0.
 */
export type RawFraming = "chunked" | "length" | "close";

/** The connection, as a raw stream sees it. `cut` resets the connection. */
export interface RawOutput extends Pick<Output, "send" | "finished" | "broken"> {
  cut(): void;
}

const LINE_END_BYTES = 2;

export class RawStream implements DrainListener {
  /** True while the client does not read as fast as the owner writes; `onDrain` reports room. */
  full = false;
  #over = false;

  constructor(
    private readonly owner: SinkEvents,
    private readonly output: RawOutput,
    private readonly framing: RawFraming,
  ) {}

  /** Sends a part of the body. The caller may reuse the bytes afterwards. */
  write(bytes: Uint8Array): void {
    if (this.#over || bytes.length === 0) return;
    if (this.framing !== "chunked") {
      this.#send(bytes, bytes.length);
      return;
    }
    const into = roomFor(bytes.length);
    const at = putSize(into, bytes.length);
    into.set(bytes, at);
    const end = at + bytes.length;
    into.write("\r\n", end, "latin1");
    this.#send(into, end + LINE_END_BYTES);
  }

  /** Ends the body. `trailers`: header lines, each with its line end; sent only after chunks. */
  end(trailers: string): void {
    if (this.#over) return;
    this.#over = true;
    if (this.framing === "chunked") {
      const last = Buffer.from(`0\r\n${trailers}\r\n`, "latin1");
      this.output.send(last, last.length, null);
    }
    this.output.finished();
  }

  /** Breaks the body off, so that the client sees that it is incomplete. */
  reset(): void {
    if (this.#over) return;
    this.#over = true;
    // If the connection's end marks the end of the body, a normal close would make it look complete.
    if (this.framing === "close") this.output.cut();
    else this.output.broken();
  }

  drained(): void {
    this.full = false;
    if (!this.#over) this.owner.onDrain();
  }

  /** Called by the exchange when the client left. */
  gone(): void {
    if (this.#over) return;
    this.#over = true;
    this.owner.onGone();
  }

  /** Does nothing: raw streams hold nothing back. Called by the exchange before the socket closes. */
  shut(): void {}

  #send(bytes: Uint8Array, length: number): void {
    if (this.output.send(bytes, length, this) > 0) this.full = true;
  }
}
