/** Base class of receivers that stand between the engine and another receiver, such as one that looks for repetitions. */
import { Finish, type Receiver } from "../../../engine/interface/types.ts";

const NO_IDS = new Int32Array();

/** Gets the engine's calls first. A subclass decides which tokens it passes on to `next`. */
export abstract class ReceiverBefore implements Receiver {
  protected readonly next: Receiver;

  constructor(next: Receiver) {
    this.next = next;
  }

  get streams(): boolean {
    return this.next.streams === true;
  }

  get bytes(): number {
    return this.next.bytes ?? 0;
  }

  broken(): void {
    if (this.next.broken) this.next.broken();
    else this.next.onTokens(NO_IDS, 0, 0, Finish.Error, -1);
  }

  abstract onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void;
}
