/**
 * Keeps responses as vLLM 0.33 does with VLLM_ENABLE_RESPONSES_API_STORE=1 (`responses/serving.py`, response_store,
 * msg_store, event_store), but within limits of number and size: the oldest are dropped first.
 */
import type { EventSink } from "../../../wire/http/sink.ts";
import type { Before } from "./convert.ts";

export type Status = "queued" | "in_progress" | "completed" | "incomplete" | "failed" | "cancelled";

/** Characters of all responses that are kept, together. */
export const KEPT_CHARACTERS_MAX = 64 * 2 ** 20;

/** Events of a stream that nobody may be reading; readers follow it. */
export class EventLog implements EventSink {
  readonly full = false;
  readonly events: string[] = [];
  ended = false;
  /** Length of all events together. */
  characters = 0;
  readonly #readers = new Set<() => void>();

  write(event: string): boolean {
    this.events.push(event);
    this.characters += event.length;
    this.#tell();
    return true;
  }

  writeParts(before: Uint8Array, piece: Uint8Array, after: Uint8Array): boolean {
    return this.write(Buffer.concat([before, piece, after]).toString());
  }

  end(): void {
    this.ended = true;
    this.#tell();
  }

  reset(): void {
    this.end();
  }

  /** Calls `more` at each event and at the end, until it is taken back. */
  follow(more: () => void): () => void {
    this.#readers.add(more);
    return () => this.#readers.delete(more);
  }

  #tell(): void {
    for (const more of this.#readers) more();
  }
}

/** A response that is kept. */
export interface Kept {
  status: Status;
  /** The body, for its status now. */
  body: (status: Status) => string;
  /** The conversation that a later response continues. */
  before: Before;
  /** About how many characters of memory it takes. */
  readonly characters: number;
  /** What a background response needs while it runs; null: answered at once. */
  readonly running: { readonly abort: AbortController; readonly log: EventLog | null } | null;
}

export class Store {
  readonly #most: number;
  readonly #charactersMost: number;
  readonly #kept = new Map<string, Kept>();
  #characters = 0;

  /** `most` 0: none is kept. */
  constructor(most: number, charactersMost = KEPT_CHARACTERS_MAX) {
    this.#most = most;
    this.#charactersMost = charactersMost;
  }

  get keeps(): boolean {
    return this.#most > 0;
  }

  get(id: string): Kept | undefined {
    return this.#kept.get(id);
  }

  delete(id: string): boolean {
    this.#characters -= this.#kept.get(id)?.characters ?? 0;
    return this.#kept.delete(id);
  }

  /** Keeps a response and drops the oldest until the limits hold. One that is larger than all together may be is not kept. */
  set(id: string, kept: Kept): void {
    this.delete(id);
    this.#kept.set(id, kept);
    this.#characters += kept.characters;
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= this.#most && this.#characters <= this.#charactersMost) return;
      this.delete(oldest);
    }
  }
}
