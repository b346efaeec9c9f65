/**
 * Which responses are kept? As vLLM 0.33 with VLLM_ENABLE_RESPONSES_API_STORE=1 (`responses/serving.py`, response_store,
 * msg_store, event_store), but for a limit: the oldest go first.
 */
import type { EventSink } from "../../http/sink.ts";
import type { Before } from "./convert.ts";

export type Status = "queued" | "in_progress" | "completed" | "incomplete" | "failed" | "cancelled";

/** Events of a stream that nobody may be reading; readers follow it. */
export class EventLog implements EventSink {
  readonly full = false;
  readonly events: string[] = [];
  ended = false;
  readonly #readers = new Set<() => void>();

  write(event: string): boolean {
    this.events.push(event);
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
  /** What a later response goes on from. */
  before: Before;
  /** What a background response needs while it runs; null: answered at once. */
  readonly running: { readonly abort: AbortController; readonly log: EventLog | null } | null;
}

export class Store {
  readonly #most: number;
  readonly #kept = new Map<string, Kept>();

  /** `most` 0: none is kept. */
  constructor(most: number) {
    this.#most = most;
  }

  get keeps(): boolean {
    return this.#most > 0;
  }

  get(id: string): Kept | undefined {
    return this.#kept.get(id);
  }

  delete(id: string): boolean {
    return this.#kept.delete(id);
  }

  set(id: string, kept: Kept): void {
    this.#kept.delete(id);
    this.#kept.set(id, kept);
    if (this.#kept.size <= this.#most) return;
    const [oldest] = this.#kept.keys();
    this.#kept.delete(oldest!);
  }
}
