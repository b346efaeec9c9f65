/** Sends disturbed batches: late ones after their time, and replays that end too early. */
import type { ZmtpOptions } from "../wire/zmtp/socket.ts";
import type { KvEventFaults } from "./faults.ts";
import { END_SEQUENCE, type EncodedBatch, type SendToClient } from "./replay.ts";

/** Batches that wait after a late one. Beyond that the oldest are sent before their time. */
const WAITING_MOST = 10_000;
/** Clients whose replays are cut at the same time. */
const CUT_MOST = 1024;

export interface OutletTarget {
  /** Sends a batch to subscribers. */
  send(batch: EncodedBatch): void;
  /** Keeps a batch for replays. */
  keep(batch: EncodedBatch): void;
  /** Drops the batches that are kept for replays. */
  clearKept(): void;
}

interface WaitingBatch {
  readonly batch: EncodedBatch;
  readonly dueUs: number;
}

export class FaultyOutlet {
  /** Batches that wait, in the order in which they are sent. */
  readonly #waiting: WaitingBatch[] = [];
  /** Batches that a client's replay may still have. null: all. */
  readonly #left = new Map<string, number | null>();
  #cancel: (() => void) | null = null;

  constructor(
    private readonly faults: KvEventFaults,
    private readonly timer: ZmtpOptions["timer"],
    private readonly target: OutletTarget,
  ) {}

  /** Sends and keeps a batch as the faults have it. `number`: its number since the start. */
  publish(number: number, payload: Buffer): void {
    const { sent, kept, delayMs, isRestart } = this.faults.disturb(number, payload);
    if (isRestart) this.target.clearKept();
    if (kept !== null) this.target.keep(kept);
    const dueUs = Math.max(this.timer.nowUs() + delayMs * 1000, this.#waiting.at(-1)?.dueUs ?? 0);
    for (const batch of sent)
      if (delayMs === 0 && this.#waiting.length === 0) this.target.send(batch);
      else this.#waiting.push({ batch, dueUs });
    while (this.#waiting.length > WAITING_MOST) this.target.send(this.#waiting.shift()!.batch);
    this.#await();
  }

  /** Returns a function that leaves out the rest of a cut replay. */
  replaySender(send: SendToClient): SendToClient {
    return (identity, frames) => {
      const key = identity.toString("latin1");
      if (!this.#left.has(key)) this.#left.set(key, this.faults.replayCut());
      if (this.#left.size > CUT_MOST) this.#left.delete(this.#left.keys().next().value!);
      const left = this.#left.get(key) ?? null;
      const isEnd = END_SEQUENCE.equals(frames[2]!);
      if (left === null || (left > 0 && !isEnd)) {
        if (!send(identity, frames)) return false;
        if (left !== null) this.#left.set(key, left - 1);
      }
      if (isEnd) this.#left.delete(key);
      return true;
    };
  }

  /** Sends what waits at once. */
  close(): void {
    this.#cancel?.();
    this.#cancel = null;
    for (const { batch } of this.#waiting.splice(0)) this.target.send(batch);
  }

  #await(): void {
    const [first] = this.#waiting;
    if (first === undefined || this.#cancel !== null) return;
    this.#cancel = this.timer.after(Math.max(0, first.dueUs - this.timer.nowUs()), () => {
      this.#cancel = null;
      const nowUs = this.timer.nowUs();
      while (this.#waiting.length > 0 && this.#waiting[0]!.dueUs <= nowUs)
        this.target.send(this.#waiting.shift()!.batch);
      this.#await();
    });
  }
}
