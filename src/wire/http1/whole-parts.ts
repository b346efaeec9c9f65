/** How does an answer of a known length leave that is made while it is sent? Part by part, as the client takes them. */
import type { PartSink, SinkEvents } from "../http/sink.ts";
import type { Drained, Output } from "./stream.ts";

/** Answers of these have no body, and say no length. */
export const NO_BODY: readonly number[] = [204, 304];
/** Bytes of an answer made part by part that are kept for a plan. */
export const GATHERED_MOST = 64 * 2 ** 20;

/** Where the parts of an answer go that a plan disturbs: it acts on the whole. */
export class GatheredParts implements Pick<Output, "send" | "finished"> {
  readonly #parts: Uint8Array[] = [];
  readonly #whole: (body: Uint8Array) => void;

  constructor(whole: (body: Uint8Array) => void) {
    this.#whole = whole;
  }

  send(part: Uint8Array): number {
    this.#parts.push(part);
    return 0;
  }

  finished(): void {
    this.#whole(Buffer.concat(this.#parts.splice(0)));
  }
}

export class WholeParts implements PartSink, Drained {
  full = false;
  readonly #owner: SinkEvents;
  readonly #output: Pick<Output, "send" | "finished">;
  /** Bytes still to be written. */
  #left: number;
  #gone = false;

  constructor(owner: SinkEvents, output: Pick<Output, "send" | "finished">, bytes: number) {
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
