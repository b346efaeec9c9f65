/** The thread that collects and prints. One message with the setup; then orders through shared memory, answered in order. */
import { readlinkSync } from "node:fs";
import { setPriority } from "node:os";
import { StepRest } from "../host/step-rest.ts";
import { views } from "./dialects.ts";
import { heldReader } from "./held.ts";
import { OrderTime, OrderWord, PAGE_FORMATS, type RendererSetup } from "./order.ts";
import { Encoded, pages } from "./page.ts";
import { AllPages } from "./shared.ts";

declare const self: Worker;

/**
 * After the first page one is made so often from nothing, with pauses: the next scrape then finds compiled what runs (10 ms
 * more each, else). A page that somebody gets makes only what has moved.
 */
const WARM_PAGES = 4;
const WARM_PAUSE_MS = 30;

/** Priority of this thread: on a busy machine a page waits for the streams, and not they for it. */
const NICE = 10;

self.onmessage = async ({ data: { setup, order, copies, times } }: MessageEvent<RendererSetup>) => {
  stepBack();
  /** What pages of text are made of, by the place of their view. */
  const encoded = views.map(() => new Encoded());
  const read = heldReader(setup.shape, setup.refreshes);
  const render = pages(setup.identity);
  const shared = setup.pages ? new AllPages(setup.pages) : null;
  for (let turn = 0, warm = 0; ; ) {
    const pauseMs = turn > 0 && warm < WARM_PAGES ? WARM_PAUSE_MS : Number.POSITIVE_INFINITY;
    if (Atomics.wait(order, OrderWord.Turn, turn, pauseMs) === "timed-out") {
      warm++;
      const again = heldReader(setup.shape, setup.refreshes)(shared?.read() ?? copies);
      new Encoded().of(
        await pages(setup.identity).parts(views[order[OrderWord.View]!]!, again, "text", times[OrderTime.NowUs]!),
      );
      continue;
    }
    turn = Atomics.load(order, OrderWord.Turn);
    // Nothing else moves `Turn` before this order is answered.
    const wait = (ms: number) => void Atomics.wait(order, OrderWord.Turn, turn, ms);
    const rest = new StepRest(times[OrderTime.DueMs]!, wait);
    const [view, format] = [order[OrderWord.View]!, PAGE_FORMATS[order[OrderWord.Format]!]!];
    const parts = await render.parts(
      views[view]!,
      read(shared?.read() ?? copies),
      format,
      times[OrderTime.NowUs]!,
      rest,
    );
    const bytes = (format === "text" ? encoded[view]! : new Encoded()).of(parts);
    self.postMessage(bytes, [bytes.buffer]);
  }
};

/** Where threads have priorities of their own; elsewhere it would be the whole process's. */
function stepBack(): void {
  try {
    setPriority(Number(readlinkSync("/proc/thread-self").split("/").at(-1)), NICE);
  } catch {
    // No /proc, or not allowed: all threads are equal.
  }
}
