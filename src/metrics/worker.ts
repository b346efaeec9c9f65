/**
 * Collects and prints metrics pages in a worker thread. Receives one message with the setup. After that, orders arrive
 * through shared memory. Each order whose page is wanted is answered once, with the page and its turn.
 */
import { lowerPriority } from "../base/time/low-priority.ts";
import { StepRest } from "../base/time/step-rest.ts";
import { type View, views } from "./dialects.ts";
import { awaitTurn, OrderTime, OrderWord, PAGE_FORMATS, type RenderedPage, type RendererSetup } from "./order.ts";
import { PageEncoder, pages } from "./page.ts";
import { copiesReader } from "./rows/held.ts";
import { AllPages } from "./rows/shared.ts";

declare const self: Worker;

/**
 * Number of warm-up pages. In these spare pages, all numbers change, so that the runtime compiles all code before the
 * next scrape. Otherwise the compiler occupies the core during every third page of the first hundred, for 2 to 14 ms
 * (`reportFTLCompileTimes`). With several engines, fewer pages suffice.
 */
const WARM_PAGES = 100;

self.onmessage = async ({ data: { setup, order, copies, times } }: MessageEvent<RendererSetup>) => {
  // On a busy machine, pages should wait for streams, not streams for pages.
  lowerPriority();
  /** Encoders of text pages, by index of the view. */
  const encoded = views.map(() => new PageEncoder());
  const read = copiesReader(setup.shape, setup.refreshes);
  const render = pages(setup.identity);
  const shared = setup.pages ? new AllPages(setup.pages) : null;
  let warmUp: WarmUp | null = null;
  let isWarm = false;
  /** Pages of the real numbers. */
  let made = 0;
  for (let turn = 0; ; ) {
    turn = awaitTurn(order, turn);
    // No newer order arrives before this one is answered, unless this order's page is a spare.
    const wait = (ms: number) => void Atomics.wait(order, OrderWord.Turn, turn, ms);
    const rest = new StepRest(times[OrderTime.DueMs]!, wait);
    // If this order is a spare, a new order may arrive while it is read. It is then taken in the next turn.
    const wanted = order[OrderWord.Wanted] === turn;
    const [view, format] = [order[OrderWord.View]!, PAGE_FORMATS[order[OrderWord.Format]!]!];
    // The first page shows the real numbers in any case, so that the next page finds the parts that both have in common.
    if (!wanted && !isWarm && made > 0) {
      warmUp ??= new WarmUp(setup);
      isWarm = await warmUp.page(views[view]!, shared?.read() ?? copies, times[OrderTime.NowUs]!, rest);
      if (isWarm) warmUp = null;
      continue;
    }
    made++;
    const parts = await render.parts(
      views[view]!,
      read(shared?.read() ?? copies),
      format,
      times[OrderTime.NowUs]!,
      rest,
    );
    const bytes = (format === "text" ? encoded[view]! : new PageEncoder()).of(parts);
    if (wanted) self.postMessage({ turn, bytes } satisfies RenderedPage, [bytes.buffer]);
  }
};

/** Makes warm-up pages with changing numbers. */
class WarmUp {
  readonly #read: ReturnType<typeof copiesReader>;
  readonly #render: ReturnType<typeof pages>;
  readonly #encoded = new PageEncoder();
  readonly #pages: number;
  #pageCount = 0;

  constructor({ shape, refreshes, identity }: RendererSetup["setup"]) {
    this.#pages = WARM_PAGES / shape.engines;
    this.#read = copiesReader(shape, refreshes);
    // A separate poller, so that warm-up pages do not affect real ones.
    this.#render = pages({ ...identity, triton: { ...identity.triton } });
  }

  /** Makes a page. Returns true if it was the last. */
  async page(view: View, numbers: Float64Array, nowUs: number, rest: StepRest): Promise<boolean> {
    this.#pageCount++;
    const moved = numbers.map((value) => value + this.#pageCount);
    this.#encoded.of(await this.#render.parts(view, this.#read(moved), "text", nowUs, rest));
    return this.#pageCount >= this.#pages;
  }
}
