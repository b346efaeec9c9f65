/** Sends events in batches of a fixed number, as llm-d-inference-sim does, in place of a batch per step. */
import type { Timer } from "../wire/http/deadlines.ts";
import type { BatchReceiver } from "./assembler.ts";
import type { KvCacheEvent, KvEventBatch } from "./batch.ts";

/** Longest time that events wait for a full batch. */
const WAIT_US = 1_000_000;

export class BatchCutter implements BatchReceiver {
  #events: KvCacheEvent[] = [];
  #last: KvEventBatch | null = null;
  #cancel: (() => void) | null = null;

  constructor(
    private readonly size: number,
    private readonly timer: Required<Timer>,
    private readonly receiver: BatchReceiver,
  ) {}

  publish(batch: KvEventBatch): void {
    this.#last = batch;
    this.#events.push(...batch.events);
    while (this.#events.length >= this.size) this.#send(this.#events.splice(0, this.size));
    if (this.#events.length > 0) this.#cancel ??= this.timer.after(WAIT_US, () => this.flush());
  }

  dropped(batches: number): void {
    this.receiver.dropped(batches);
  }

  /** Sends what waits. */
  flush(): void {
    if (this.#events.length > 0) this.#send(this.#events.splice(0));
  }

  #send(events: KvCacheEvent[]): void {
    this.#cancel?.();
    this.#cancel = null;
    this.receiver.publish({ ...this.#last!, events });
  }
}
