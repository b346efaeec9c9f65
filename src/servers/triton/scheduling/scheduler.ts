/**
 * Defines how a model's requests reach its instances. Schedulers are pure: they take requests and the current time and return
 * orders. The caller carries out the orders and reports instances that become free. Times are in microseconds.
 */

/** The properties of a request that a scheduler reads. */
export interface Schedulable {
  /** Number of inferences in the request, at least 1. */
  readonly batchSize: number;
  /** Priority level; 0 means the model's default. */
  readonly priority: number;
  /** Timeout of the request, or 0 if it sets none. */
  readonly timeoutUs: number;
  /** Key of requests that may share a batch: the names of the inputs, and the shapes that must be equal. */
  readonly likeness: string;
  /** True if the client has cancelled the request. */
  readonly cancelled: boolean;
}

export interface BatchOrders<R> {
  /** Batches to start now, each on any free instance. With a rate limiter a batch starts later and may grow until then. */
  readonly run: readonly (readonly R[])[];
  /** Batches to start now on a certain instance. */
  readonly placed?: readonly PlacedBatch<R>[];
  /** Requests that waited longer than the queue policy allows. */
  readonly rejected: readonly R[];
  readonly cancelled: readonly R[];
  /** Time at which to call `orders` again without an event, or null. */
  readonly wakeUs: number | null;
}

const NONE: readonly never[] = [];
/** Orders without work. */
export const NO_ORDERS: BatchOrders<never> = { run: NONE, rejected: NONE, cancelled: NONE, wakeUs: null };

/** One request of a batch for a certain instance. */
export interface BatchRow<R> {
  readonly request: R;
  /** Index of the sequence slot in the instance. */
  readonly slot: number;
  /** False if the slot has no request. `request` is then a stand-in with empty data that keeps the other slots in place. */
  readonly ready: boolean;
}
export interface PlacedBatch<R> {
  readonly instance: number;
  readonly rows: readonly BatchRow<R>[];
}

export interface Scheduler<R extends Schedulable> {
  /** Adds a request. Returns false if the queue is full; throws a `TritonError` for other reasons. Call `orders` afterwards. */
  enqueue(request: R, nowUs: number): boolean;
  /** Reports that an instance has become free. */
  freed(instance: number): void;
  /** Reports that a rate-limited batch starts and no longer grows. Call `orders` afterwards. */
  began?(batch: readonly R[]): void;
  /** Reports that a request has had its last response. */
  completed?(request: R, nowUs: number): void;
  orders(nowUs: number): BatchOrders<R>;
}

/** Schedules without dynamic batching: each request alone, in order of arrival, on the next free instance. */
export class DefaultScheduler<R extends Schedulable> implements Scheduler<R> {
  readonly #queue: R[] = [];

  /** `idle`: number of instances. Infinity if requests wait for an instance elsewhere. */
  constructor(private idle: number) {}

  enqueue(request: R): boolean {
    this.#queue.push(request);
    return true;
  }

  freed(): void {
    this.idle++;
  }

  orders(): BatchOrders<R> {
    if (this.#queue.length === 0) return NO_ORDERS;
    const run: R[][] = [];
    for (; this.idle > 0 && this.#queue.length > 0; this.idle--) run.push([this.#queue.shift()!]);
    return { run, rejected: NONE, cancelled: NONE, wakeUs: null };
  }
}
