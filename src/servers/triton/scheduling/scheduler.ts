/**
 * How do requests of a model come to its instances? Pure: requests and the time go in, orders come out; whoever carries them
 * out tells when an instance has become free. Times are microseconds.
 */

/** What a scheduler must know of a request. */
export interface Schedulable {
  /** Inferences in it, at least 1. */
  readonly batchSize: number;
  /** 0: the model's default. */
  readonly priority: number;
  /** 0: none of its own. */
  readonly timeoutUs: number;
  /** Only requests with the same one share a batch: which inputs are there, and the shapes that must be equal. */
  readonly likeness: string;
  /** The client wants it no more. */
  readonly cancelled: boolean;
}

export interface BatchOrders<R> {
  /** Batches, each for an instance of its own, at once. Where more than instances is waited for, they may grow until then. */
  readonly run: readonly (readonly R[])[];
  /** Batches for certain instances, at once. */
  readonly placed?: readonly PlacedBatch<R>[];
  /** Waited longer than the queue's policy allows. */
  readonly rejected: readonly R[];
  readonly cancelled: readonly R[];
  /** When to look again though nothing has happened; null: then there is no need. */
  readonly wakeUs: number | null;
}

const NONE: readonly never[] = [];
/** There is nothing to be done. */
export const NO_ORDERS: BatchOrders<never> = { run: NONE, rejected: NONE, cancelled: NONE, wakeUs: null };

/** One of a batch that goes to a certain instance. */
export interface BatchRow<R> {
  readonly request: R;
  /** Which of the instance's sequences. */
  readonly slot: number;
  /** false: the slot has no request; an empty copy of this one stands there, so that the others keep their places. */
  readonly ready: boolean;
}
export interface PlacedBatch<R> {
  readonly instance: number;
  readonly rows: readonly BatchRow<R>[];
}

export interface Scheduler<R extends Schedulable> {
  /** Takes a request in; false: its queue is full. Throws a `TritonError` otherwise. `orders` is to be called afterwards. */
  enqueue(request: R, nowUs: number): boolean;
  /** An instance has become free. */
  freed(instance: number): void;
  /** A batch that waited for more than an instance begins, and grows no more. Call `orders` afterwards. */
  began?(batch: readonly R[]): void;
  /** A request has had its last response. */
  completed?(request: R, nowUs: number): void;
  orders(nowUs: number): BatchOrders<R>;
  /** Requests that wait here. */
  readonly waiting: number;
}

/** Without dynamic batching: each request by itself, in order of arrival, to the next instance that is free. */
export class DefaultScheduler<R extends Schedulable> implements Scheduler<R> {
  readonly #queue: R[] = [];
  #idle: number;

  /** Infinity: who waits for an instance waits elsewhere. */
  constructor(instances: number) {
    this.#idle = instances;
  }

  get waiting(): number {
    return this.#queue.length;
  }

  enqueue(request: R): boolean {
    this.#queue.push(request);
    return true;
  }

  freed(): void {
    this.#idle++;
  }

  orders(): BatchOrders<R> {
    if (this.#queue.length === 0) return NO_ORDERS;
    const run: R[][] = [];
    for (; this.#idle > 0 && this.#queue.length > 0; this.#idle--) run.push([this.#queue.shift()!]);
    return { run, rejected: NONE, cancelled: NONE, wakeUs: null };
  }
}
