/**
 * Gets metrics pages from a worker thread. The event loop's thread copies the numbers into shared memory, wakes the
 * worker and waits for a message with the page. Ordering by message took half of a scrape's time on this thread. The
 * worker starts in the first idle moment (`prepare`) or with the first scrape.
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

/** Largest number of waiting scrapes. Further scrapes are refused. */
export const WAITING_MAX = 256;

/**
 * For this long after a scrape, spare pages are made that no scrape receives, to keep memory and compiled code ready
 * for the next scrape. A virtual machine may take a microsecond for each memory page that was not touched for a second.
 * Scrapes every second therefore took four times as long as scrapes every 100 ms.
 */
const READY_FOR_US = 90_000_000;
const READY_EVERY_US = 100_000;
/** The first spare pages come at shorter intervals, so that their code is compiled before the second scrape. */
const SOON_PAGES = 100;
const SOON_EVERY_US = 30_000;
/** Time for which `prepare` has spare pages made. More of them would keep 10 MB of memory. */
const PREPARED_FOR_US = 70_000;

type Bytes = Uint8Array<ArrayBuffer>;
interface Order {
  readonly view: View;
  readonly format: PageFormat;
  readonly page: Promise<Bytes>;
  readonly resolve: (page: Bytes) => void;
  readonly reject: (reason: unknown) => void;
}

/** Thrown if more than `WAITING_MAX` scrapes wait. */
export class TooManyScrapes extends Error {}

/** Records work, so that late steps can be attributed to it. */
interface WorkMarks {
  /** Runs and measures work on the event loop's thread. */
  timed<T>(work: () => T): T;
  /** Records that another thread starts or finishes work. */
  busy(busy: boolean): void;
}

/** The engine's clock, which knows when the next step is due. Without `about`, no spare pages are made. */
type PageClock = Pick<Clock, "now" | "nextUs" | "about">;

export class Renderer {
  /** Receives the work of each page: the copy on this thread, and the printing in the worker. */
  marks: WorkMarks | null = null;
  #worker: Worker | null = null;
  /** True if the worker has outdated adapter names. */
  #renamed = false;
  /** Shared memory: the order that the worker waits for, and the snapshot copies. */
  #order: Int32Array = new Int32Array();
  #copies: Float64Array = new Float64Array();
  #times: Float64Array = new Float64Array();
  /** Number of spare pages of this worker. */
  #spares = 0;
  /** View of the spare pages. */
  #view: View = "role";
  #readyUntilUs = 0;
  #nextSpare: Cancel | null = null;
  #running: Order | null = null;
  /** Turn of the running order. A page with another turn does not answer it. */
  #runningTurn = 0;
  /** The next order of each view and format. It has no numbers yet, so a scrape that joins it sees everything that happened before it came. */
  readonly #next = new Map<string, Order>();
  #waiting = 0;

  /** `numbers` updates the snapshot copies and returns them, or returns null if the worker reads shared pages. Called once per page. */
  constructor(
    private readonly numbers: () => Float64Array | null,
    private setup: Setup,
    private readonly clock: PageClock,
  ) {}

  /** Returns the bytes of a page that is no older than the call. Scrapes that arrive while a page is made share the next one. */
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

  /** Starts the worker, which then makes some spare pages. For idle time: the first scrape finds a worker that is ready. */
  prepare(view: View): void {
    if (this.#worker !== null) return;
    this.#view = view;
    this.#readyUntilUs = this.clock.now() + PREPARED_FOR_US;
    this.#begin(view, "text", false);
    this.#orderSpare();
  }

  /** Sets the names of the adapters by number, for all later pages. The worker receives no messages, so it is replaced. */
  name(adapters: readonly string[]): void {
    const { identity } = this.setup;
    const names = adapters.map((name) => name.slice(0, ADAPTER_NAME_SHOWN));
    this.setup = { ...this.setup, identity: { ...identity, adapters: names } };
    this.#renamed = this.#worker !== null;
  }

  /** Ends the worker. Waiting scrapes fail. */
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
    const numbers = this.marks ? this.marks.timed(this.numbers) : this.numbers();
    this.#worker ??= this.#start(numbers?.length ?? 0);
    // The worker is idle, or makes a spare page.
    if (numbers) this.#copies.set(numbers);
    this.#order[OrderWord.View] = views.indexOf(view);
    this.#order[OrderWord.Format] = PAGE_FORMATS.indexOf(format);
    if (wanted) {
      this.#order[OrderWord.Wanted] = this.#order[OrderWord.Turn]! + 1;
      this.#runningTurn = this.#order[OrderWord.Wanted]!;
    }
    const nowUs = this.clock.now();
    this.#times[OrderTime.NowUs] = nowUs;
    this.#times[OrderTime.DueMs] = restDueMs(this.clock.nextUs() - nowUs);
    Atomics.add(this.#order, OrderWord.Turn, 1);
    Atomics.notify(this.#order, OrderWord.Turn);
  }

  #stayReady(view: View): void {
    this.#view = view;
    this.#readyUntilUs = this.clock.now() + READY_FOR_US;
    if (this.#nextSpare === null) this.#orderSpare();
  }

  #orderSpare(): void {
    const afterUs = this.#spares < SOON_PAGES ? SOON_EVERY_US : READY_EVERY_US;
    this.#nextSpare = this.clock.about?.(this.clock.now() + afterUs, this.#spare) ?? null;
  }

  readonly #spare = (): void => {
    this.#nextSpare = null;
    if (this.#worker === null || this.clock.now() > this.#readyUntilUs) return;
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
      // A terminated worker may still deliver a page, and a page may come twice. Neither may resolve another order.
      if (worker !== this.#worker || order === null || turn !== this.#runningTurn) return;
      this.#running = null;
      this.marks?.busy(false);
      order.resolve(bytes);
      this.#turn();
    };
    const message: RendererSetup = { setup: this.setup, order: this.#order, copies: this.#copies, times: this.#times };
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

  /** Fails all waiting scrapes. The next scrape starts a new worker. */
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
