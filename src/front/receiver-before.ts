/** How does something stand between the engine and a receiver? It hears first, and hands on what it does not change. */
import type { Finish, Receiver } from "../engine/types.ts";

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

  abstract onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null, stopTokenId: number): void;
}
