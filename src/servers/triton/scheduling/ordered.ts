/** Sends responses in the order of their requests, whatever finishes first (`preserve_ordering`). */
import type { ModelConfig } from "../model-config/model-config.ts";

interface PendingResponses<R> {
  readonly request: R;
  readonly sends: (() => void)[];
  over: boolean;
}

export class OrderedResponses<R> {
  /** Entries in order of arrival. Responses of the first request are sent at once. */
  readonly #queue: PendingResponses<R>[] = [];

  enter(request: R): void {
    this.#queue.push({ request, sends: [], over: false });
  }

  /**
   * Sends the response now, or after the last response of every earlier request. `final`: the last response of this request.
   */
  send(request: R, send: () => void, final: boolean): void {
    const entry = this.#queue.find((candidate) => candidate.request === request)!;
    entry.sends.push(send);
    entry.over = final;
    for (let first = this.#queue[0]; first !== undefined; first = this.#queue[0]) {
      for (const sendNext of first.sends.splice(0)) sendNext();
      if (!first.over) return;
      this.#queue.shift();
    }
  }
}

/**
 * The response orders of a model: one for all requests, or one per instance for sequences. Empty if responses need no order.
 */
export class ResponseOrders<R> {
  readonly #orders: readonly OrderedResponses<R>[];
  readonly #orderOf = new Map<R, OrderedResponses<R>>();

  constructor({ dynamic_batching: batching, sequence_batching: sequences }: ModelConfig, instances: number) {
    const orders = sequences?.oldest?.preserve_ordering ? instances : batching?.preserve_ordering ? 1 : 0;
    this.#orders = Array.from({ length: orders }, () => new OrderedResponses());
  }

  get any(): boolean {
    return this.#orders.length > 0;
  }

  enter(request: R, at: number): void {
    const order = this.#orders[at]!;
    order.enter(request);
    this.#orderOf.set(request, order);
  }

  /** Returns the order to which a request belongs, or undefined if it has none. `final`: forgets the request. */
  orderFor(request: R, final: boolean): OrderedResponses<R> | undefined {
    if (this.#orderOf.size === 0) return undefined;
    const order = this.#orderOf.get(request);
    if (final) this.#orderOf.delete(request);
    return order;
  }
}
