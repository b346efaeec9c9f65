/** Which heads came lately? A client says the same one with each request: what was made of it once serves again. */
import type { Head } from "./fields.ts";

/** A request that was one piece of bytes, and nothing else. */
export interface KnownHead {
  readonly head: Head;
  /** With the empty line. */
  readonly bytes: Buffer;
  /** As the limit of a head counts them. */
  readonly countedBytes: number;
  readonly bodyBytes: number;
}

/** Heads kept for all connections together; the oldest goes first. */
const KNOWN_MOST = 256;

export class KnownHeads {
  readonly #known = new Map<string, KnownHead>();

  /** `text`: up to and with the empty line, bytes as Latin-1. */
  get(text: string): KnownHead | undefined {
    return this.#known.get(text);
  }

  add(text: string, known: KnownHead): void {
    if (this.#known.size >= KNOWN_MOST) this.#known.delete(this.#known.keys().next().value!);
    this.#known.set(text, known);
  }
}
