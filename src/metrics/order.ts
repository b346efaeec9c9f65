/** How is a page ordered from the thread that makes it? Through shared memory: one order at a time, counted by its turn. */
import type { Setup } from "./identity.ts";

export const PAGE_FORMATS = ["text", "openmetrics"] as const;
export type PageFormat = (typeof PAGE_FORMATS)[number];

/** Words of an order. `View` and `PageFormat` are places in `views` and `PAGE_FORMATS`; `LeftUs`: the next step is due so much later. */
export const OrderWord = { Turn: 0, View: 1, Format: 2, LeftUs: 3 } as const;
export const ORDER_WORDS = 4;
/** As good as never. */
const LEFT_MOST_US = 1_000_000;

/** What the word says of a step that is due so much later, microseconds. */
export const leftWord = (leftUs: number): number => Math.min(LEFT_MOST_US, Math.max(0, Math.ceil(leftUs)));

/** The one message to the thread. */
export interface RendererSetup {
  readonly setup: Setup;
  /** Shared; the thread waits until `Turn` moves, and answers each order with a message. */
  readonly order: Int32Array;
  /** Shared: the held copies, as they are to be printed; empty where they lie in the pages of several processes. */
  readonly copies: Float64Array;
  /** Shared, one number: the engine's clock when the page was ordered, microseconds. */
  readonly now: Float64Array;
}
