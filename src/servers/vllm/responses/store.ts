/**
 * Stores responses like vLLM 0.33 with VLLM_ENABLE_RESPONSES_API_STORE=1 (`responses/serving.py`: response_store, msg_store,
 * event_store). Unlike vLLM's store, it has limits of number and size, at which the oldest responses are dropped.
 */
import type { EventSink } from "../../../wire/http/sink.ts";
import type { PreviousResponse } from "./convert.ts";

export type Status = "queued" | "in_progress" | "completed" | "incomplete" | "failed" | "cancelled";

/** Default limit for all stored responses together, in UTF-16 units. */
const KEPT_CHARACTERS_MAX = 64 * 2 ** 20;

/** Keeps the events of a background stream. Any number of readers can follow it, also none. */
export class EventLog implements EventSink {
  readonly full = false;
  readonly events: string[] = [];
  ended = false;
  /** Length of all events together, in UTF-16 units. */
  characters = 0;
  readonly #readers = new Set<() => void>();

  write(event: string): boolean {
    this.events.push(event);
    this.characters += event.length;
    this.#notify();
    return true;
  }

  writeParts(before: Uint8Array, piece: Uint8Array, after: Uint8Array): boolean {
    return this.write(Buffer.concat([before, piece, after]).toString());
  }

  end(): void {
    this.ended = true;
    this.#notify();
  }

  reset(): void {
    this.end();
  }

  /** Calls `more` at each event and at the end. Returns a function that stops the calls. */
  follow(more: () => void): () => void {
    this.#readers.add(more);
    return () => this.#readers.delete(more);
  }

  #notify(): void {
    for (const more of this.#readers) more();
  }
}

/** A response in the store. */
export interface StoredResponse {
  status: Status;
  /** Returns the body with this status. */
  body: (status: Status) => string;
  /** The conversation that a later response continues. */
  previous: PreviousResponse;
  /** Estimated size in UTF-16 units. */
  readonly characters: number;
  /** Controls of a background response. Null for other responses. */
  readonly running: { readonly abort: AbortController; readonly log: EventLog | null } | null;
}

/** The stored responses of a server, oldest first. */
export class Store {
  readonly #most: number;
  readonly #charactersMost: number;
  readonly #responses = new Map<string, StoredResponse>();
  #characters = 0;

  /** `most`: largest number of responses, 0 to store none. `charactersMost`: largest total size, in UTF-16 units. */
  constructor(most: number, charactersMost = KEPT_CHARACTERS_MAX) {
    this.#most = most;
    this.#charactersMost = charactersMost;
  }

  /** True if responses are stored at all. */
  get keeps(): boolean {
    return this.#most > 0;
  }

  get(id: string): StoredResponse | undefined {
    return this.#responses.get(id);
  }

  delete(id: string): boolean {
    this.#characters -= this.#responses.get(id)?.characters ?? 0;
    return this.#responses.delete(id);
  }

  /** Stores a response, then drops the oldest until the limits hold. Drops it too if it alone exceeds the limit of size. */
  set(id: string, response: StoredResponse): void {
    this.delete(id);
    this.#responses.set(id, response);
    this.#characters += response.characters;
    for (const oldest of this.#responses.keys()) {
      if (this.#responses.size <= this.#most && this.#characters <= this.#charactersMost) return;
      this.delete(oldest);
    }
  }
}
