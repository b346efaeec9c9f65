/**
 * Gets metrics pages from a worker thread. The loop's thread copies the held copies into shared memory, wakes the worker
 * and waits for a message with the page (ordering by message took half of a scrape's time on this thread). The worker
 * starts with the first scrape, so that a server that is never scraped pays nothing.
 */

import type { Cancel, Clock } from "../base/clock.ts";
import { onThreadEnd } from "../base/thread-end.ts";
import { restDueMs } from "../base/time/step-rest.ts";
import { logUnexpected } from "../base/unexpected.ts";
import { ADAPTER_NAME_SHOWN } from "./adapter-places.ts";
import { type View, views } from "./dialects.ts";
import {
  ORDER_TIMES,
  ORDER_WORDS,
  OrderTime,
  OrderWord,
  PAGE_FORMATS,
  type PageFormat,
  type RenderedPage,
  type RendererSetup,
} from "./order.ts";
import type { Setup } from "./rows/identity.ts";

/** Scrapes that may wait at a time; one more is refused. */
export const WAITING_MAX = 256;

/**
 * For so long after a scrape a page is made every now and then that nobody gets: the memory and the code that the next scrape
 * takes are then at hand. A virtual machine may take a microsecond for each page of memory that nobody has touched for a
 * second; a scrape every second took four times as long as one every 100 ms.
 */
const READY_FOR_US = 90_000_000;
const READY_EVERY_US = 100_000;
/** The first come sooner: what they compile is compiled before the second scrape. */
const SOON_PAGES = 100;
const SOON_EVERY_US = 30_000;

type Bytes = Uint8Array<ArrayBuffer>;
interface Order {
  readonly view: View;
  readonly format: PageFormat;
  readonly page: Promise<Bytes>;
  readonly resolve: (page: Bytes) => void;
  readonly reject: (reason: unknown) => void;
}

/** Thrown where more than `WAITING_MAX` scrapes wait. */
export class TooManyScrapes extends Error {}

/** Told of work, for the case that a step is late meanwhile. */
export interface WorkMarks {
  /** On the loop's thread, done at once. */
  timed<T>(work: () => T): T;
  /** Another thread begins, or has done it. */
  busy(busy: boolean): void;
}

/** The engine's: what time it is, and when the next step is due. Without `about` no page is made that nobody gets. */
type PageClock = Pick<Clock, "now" | "nextUs" | "about">;

export class Renderer {
  /** Told of each page: the copy on this thread, the making in the worker. */
  marks: WorkMarks | null = null;
  readonly #numbers: () => Float64Array | null;
  #setup: Setup;
  readonly #clock: PageClock;
  #worker: Worker | null = null;
  /** The thread knows other names. */
  #renamed = false;
  /** What the worker waits on, and where it finds the held copies. */
  #order: Int32Array = new Int32Array();
  #copies: Float64Array = new Float64Array();
  #times: Float64Array = new Float64Array();
  /** Pages of this worker that nobody gets. */
  #spares = 0;
  /** Their view. */
  #view: View = "role";
  #readyUntilUs = 0;
  #nextSpare: Cancel | null = null;
  #running: Order | null = null;
  /** Turn of the running order. A page with another turn does not answer it. */
  #runningTurn = 0;
  /** The next order of each view and format. It has no numbers yet, so a scrape that joins it sees all that happened before it came. */
  readonly #next = new Map<string, Order>();
  #waiting = 0;

  /**
   * `numbers` brings the held copies up to date and returns them, or null where the worker reads them in shared pages;
   * called once per page made.
   */
  constructor(numbers: () => Float64Array | null, setup: Setup, clock: PageClock) {
    this.#clock = clock;
    this.#numbers = numbers;
    this.#setup = setup;
  }

  /** The page's bytes, no older than the call. Scrapes that come while another is made share the one after it. */
  async page(view: View, format: PageFormat = "text"): Promise<Bytes> {
    if (this.#waiting >= WAITING_MAX) throw new TooManyScrapes("too many scrapes at once");
    this.#waiting++;
    try {
      const key = keyOf(view, format);
      let order = this.#next.get(key);
      if (!order) {
        order = { view, format, ...promiseParts() };
        this.#next.set(key, order);
        this.#turn();
      }
      return await order.page;
    } finally {
      this.#waiting--;
    }
  }

  /** Names of the adapters by number; pages that are begun from now on show them. The thread hears nothing, so another takes its place. */
  name(adapters: readonly string[]): void {
    const { identity } = this.#setup;
    const names = adapters.map((name) => name.slice(0, ADAPTER_NAME_SHOWN));
    this.#setup = { ...this.#setup, identity: { ...identity, adapters: names } };
    this.#renamed = this.#worker !== null;
  }

  /** Ends the thread; who still waits is told. */
  stop(): void {
    this.#fail(new Error("metrics stopped"));
  }

  #turn(): void {
    if (this.#running) return;
    const [order] = this.#next.values();
    if (!order) return;
    this.#next.delete(keyOf(order.view, order.format));
    this.#running = order;
    this.marks?.busy(true);
    if (this.#renamed) this.#end();
    try {
      this.#begin(order.view, order.format, true);
      this.#stayReady(order.view);
    } catch (reason) {
      this.#fail(reason);
    }
  }

  #begin(view: View, format: PageFormat, wanted: boolean): void {
    const numbers = this.marks ? this.marks.timed(this.#numbers) : this.#numbers();
    this.#worker ??= this.#start(numbers?.length ?? 0);
    // The worker rests, or makes a page that nobody gets.
    if (numbers) this.#copies.set(numbers);
    this.#order[OrderWord.View] = views.indexOf(view);
    this.#order[OrderWord.Format] = PAGE_FORMATS.indexOf(format);
    if (wanted) {
      this.#order[OrderWord.Wanted] = this.#order[OrderWord.Turn]! + 1;
      this.#runningTurn = this.#order[OrderWord.Wanted]!;
    }
    const nowUs = this.#clock.now();
    this.#times[OrderTime.NowUs] = nowUs;
    this.#times[OrderTime.DueMs] = restDueMs(this.#clock.nextUs() - nowUs);
    Atomics.add(this.#order, OrderWord.Turn, 1);
    Atomics.notify(this.#order, OrderWord.Turn);
  }

  #stayReady(view: View): void {
    this.#view = view;
    this.#readyUntilUs = this.#clock.now() + READY_FOR_US;
    if (this.#nextSpare === null) this.#orderSpare();
  }

  #orderSpare(): void {
    const afterUs = this.#spares < SOON_PAGES ? SOON_EVERY_US : READY_EVERY_US;
    this.#nextSpare = this.#clock.about?.(this.#clock.now() + afterUs, this.#spare) ?? null;
  }

  readonly #spare = (): void => {
    this.#nextSpare = null;
    if (this.#worker === null || this.#clock.now() > this.#readyUntilUs) return;
    this.#spares++;
    try {
      if (this.#running === null) this.#begin(this.#view, "text", false);
    } catch (error) {
      logUnexpected("a page that nobody asked for failed; the next scrape makes the next one", error);
      return;
    }
    this.#orderSpare();
  };

  #start(length: number): Worker {
    this.#order = new Int32Array(new SharedArrayBuffer(ORDER_WORDS * Int32Array.BYTES_PER_ELEMENT));
    this.#copies = new Float64Array(new SharedArrayBuffer(length * Float64Array.BYTES_PER_ELEMENT));
    this.#times = new Float64Array(new SharedArrayBuffer(ORDER_TIMES * Float64Array.BYTES_PER_ELEMENT));
    this.#spares = 0;
    const worker = new Worker(new URL("./worker.ts", import.meta.url), { smol: true });
    onThreadEnd(worker, (why) => {
      if (worker !== this.#worker) return;
      const error = new Error(`the metrics thread ended: ${why}`);
      logUnexpected("scrapes that wait get 500, and the next one starts a new thread", error);
      this.#fail(error);
    });
    worker.unref();
    worker.onmessage = ({ data: { turn, bytes } }: MessageEvent<RenderedPage>) => {
      const order = this.#running;
      // A terminated worker may still deliver a page, and a page may come twice. Neither may settle another order.
      if (worker !== this.#worker || order === null || turn !== this.#runningTurn) return;
      this.#running = null;
      this.marks?.busy(false);
      order.resolve(bytes);
      this.#turn();
    };
    const message: RendererSetup = { setup: this.#setup, order: this.#order, copies: this.#copies, times: this.#times };
    worker.postMessage(message);
    return worker;
  }

  #end(): void {
    const worker = this.#worker;
    this.#worker = null;
    this.#renamed = false;
    this.#nextSpare?.();
    this.#nextSpare = null;
    worker?.terminate();
  }

  /** The next scrape starts anew, with a new worker. */
  #fail(reason: unknown): void {
    const orders = [...(this.#running ? [this.#running] : []), ...this.#next.values()];
    if (this.#running) this.marks?.busy(false);
    this.#running = null;
    this.#next.clear();
    this.#end();
    for (const order of orders) order.reject(reason);
  }
}

const keyOf = (view: View, format: PageFormat) => `${view} ${format}`;

function promiseParts() {
  const { promise, resolve, reject } = Promise.withResolvers<Bytes>();
  return { page: promise, resolve, reject };
}
