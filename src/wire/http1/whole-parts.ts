/** Sends an answer of known length that is made while it is sent, part by part as the client reads. */
import type { PartSink, SinkEvents } from "../http/sink.ts";
import type { DrainListener, Output } from "./stream.ts";

/** Statuses whose answers have no body and no length. */
export const NO_BODY: readonly number[] = [204, 304];
/** Largest answer, in bytes, that is collected for a fault plan when it is made part by part. */
export const GATHERED_MOST = 64 * 2 ** 20;

/** Collects the parts of an answer that a fault plan disturbs, because the plan acts on the whole answer. */
export class GatheredParts implements Pick<Output, "send" | "finished"> {
  readonly #parts: Uint8Array[] = [];

  constructor(private readonly whole: (body: Uint8Array) => void) {}

  send(part: Uint8Array): number {
    this.#parts.push(part);
    return 0;
  }

  finished(): void {
    this.whole(Buffer.concat(this.#parts.splice(0)));
  }
}

export class WholeParts implements PartSink, DrainListener {
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

  /** Called by the exchange when the client left. */
  gone(): void {
    if (this.#gone) return;
    this.#gone = true;
    this.#owner.onGone();
  }
}
