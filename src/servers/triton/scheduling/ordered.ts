/** In which order do responses leave where it is that of their requests, whatever is ready first? */
import type { ModelConfig } from "../model-config/model-config.ts";

interface Held<R> {
  readonly request: R;
  readonly sends: (() => void)[];
  over: boolean;
}

export class OrderedResponses<R> {
  /** In order of arrival; the first one's responses leave at once. */
  readonly #queue: Held<R>[] = [];

  enter(request: R): void {
    this.#queue.push({ request, sends: [], over: false });
  }

  /** Sends it now, or when all requests before have had their last response. */
  send(request: R, send: () => void, final: boolean): void {
    const held = this.#queue.find((one) => one.request === request)!;
    held.sends.push(send);
    held.over = final;
    for (let first = this.#queue[0]; first !== undefined; first = this.#queue[0]) {
      for (const one of first.sends.splice(0)) one();
      if (!first.over) return;
      this.#queue.shift();
    }
  }
}

/** Those of a model: of all its requests, or of each instance's sequences; none, where responses leave as they come. */
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

  /** The one in which a response of the request leaves, for the last time where it is `final`; undefined: in none. */
  of(request: R, final: boolean): OrderedResponses<R> | undefined {
    if (this.#orderOf.size === 0) return undefined;
    const order = this.#orderOf.get(request);
    if (final) this.#orderOf.delete(request);
    return order;
  }
}
