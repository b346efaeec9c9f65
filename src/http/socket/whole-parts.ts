/** How does an answer of a known length leave that is made while it is sent? Part by part, as the client takes them. */
import type { PartSink, SinkEvents } from "../sink.ts";
import type { Drained, Output } from "./stream.ts";

export class WholeParts implements PartSink, Drained {
  full = false;
  readonly #owner: SinkEvents;
  readonly #output: Output;
  /** Bytes still to be written. */
  #left: number;
  #gone = false;

  constructor(owner: SinkEvents, output: Output, bytes: number) {
    this.#owner = owner;
    this.#output = output;
    this.#left = bytes;
  }

  write(part: Uint8Array): boolean {
    if (this.#gone || part.length === 0) return !this.full;
    this.full = this.#output.send(part, part.length, this) > 0;
    this.#left -= part.length;
    if (this.#left === 0) this.#output.finished();
    return !this.full;
  }

  drained(): void {
    this.full = false;
    if (!this.#gone) this.#owner.onDrain();
  }

  /** For the exchange. */
  gone(): void {
    if (this.#gone) return;
    this.#gone = true;
    this.#owner.onGone();
  }
}
