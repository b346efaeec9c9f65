/**
 * How do the events of a step leave by one call? They are put together in one buffer while the step's rows are handed out;
 * native code then sends each by itself. What a socket does not take goes on as any other write that came short.
 */
import type { StepWrites } from "../../engine/step-writes.ts";
import type { Batched } from "./stream.ts";

/** A full buffer is sent and begun anew: more would not stay in the processor's cache. */
const BUFFER_BYTES = 65_536;
/** Events that wait for a call at most. */
const ENTRIES_MOST = 512;

/** Words of an entry, as `Entry` in send-batch.c. */
const ENTRY_WORDS = 4;
const FD = 0;
const FROM = 1;
const LENGTH = 2;
const TAKEN = 3;

/**
 * Sends entry after entry: `length` bytes of `bytes` on a descriptor without waiting. Writes into each how many were taken, or
 * the negative errno, and gives how many took less than all.
 */
export type NativeSend = (bytes: Uint8Array, entries: Int32Array, count: number) => number;

/** Whose socket took less than its entry. */
export interface BatchedSender {
  /** These bytes are left, of an event of `then`; they are the batch's again after the call. */
  cameShort(rest: Uint8Array, then: Batched): void;
}

export class SendBatch implements StepWrites {
  /** Where events are put together. */
  readonly bytes = Buffer.alloc(BUFFER_BYTES);
  /** Rows of a step are being handed out, so nothing waits for longer than that takes. */
  collecting = false;
  /** Changes with each call: an entry of an earlier round is no longer there. */
  round = 0;
  readonly #native: NativeSend;
  readonly #entries = new Int32Array(ENTRIES_MOST * ENTRY_WORDS);
  readonly #senders: (BatchedSender | null)[] = Array(ENTRIES_MOST).fill(null);
  readonly #then: (Batched | null)[] = Array(ENTRIES_MOST).fill(null);
  #count = 0;
  #used = 0;

  constructor(native: NativeSend) {
    this.#native = native;
  }

  begin(): void {
    this.collecting = true;
  }

  end(): void {
    this.collecting = false;
    this.flush();
  }

  /** Where in `bytes` there is room for so many, which may take a call; -1: there never is. */
  room(length: number): number {
    if (length > BUFFER_BYTES) return -1;
    if (this.#used + length > BUFFER_BYTES || this.#count === ENTRIES_MOST) this.flush();
    return this.#used;
  }

  /** Bytes that stand where `room` said; the entry's number, in this round. A sender has one entry in a round at most. */
  add(fd: number, length: number, sender: BatchedSender, then: Batched): number {
    const number = this.#count++;
    const at = number * ENTRY_WORDS;
    this.#entries[at + FD] = fd;
    this.#entries[at + FROM] = this.#used;
    this.#entries[at + LENGTH] = length;
    this.#senders[number] = sender;
    this.#then[number] = then;
    this.#used += length;
    return number;
  }

  /** The socket is closed: its number may be another's at any time. */
  drop(number: number): void {
    this.#entries[number * ENTRY_WORDS + FD] = -1;
  }

  flush(): void {
    const count = this.#count;
    if (count === 0) return;
    this.#count = 0;
    this.#used = 0;
    this.round++;
    let left = this.#native(this.bytes, this.#entries, count);
    for (let i = 0; left > 0 && i < count; i++) left -= this.#settle(i);
    this.#senders.fill(null, 0, count);
    this.#then.fill(null, 0, count);
  }

  /** Gives 1 where it came short. Nobody writes into the batch meanwhile: only accounts are told of it. */
  #settle(i: number): number {
    const at = i * ENTRY_WORDS;
    const taken = this.#entries[at + TAKEN]!;
    const length = this.#entries[at + LENGTH]!;
    if (taken === length) return 0;
    const from = this.#entries[at + FROM]!;
    // An error took nothing: the same bytes written once more meet it again, or are taken.
    this.#senders[i]!.cameShort(this.bytes.subarray(from + Math.max(0, taken), from + length), this.#then[i]!);
    return 1;
  }
}
