/** How is a page ordered from the thread that makes it? Through shared memory: one order at a time, counted by its turn. */
import type { Setup } from "./identity.ts";

export const PAGE_FORMATS = ["text", "openmetrics"] as const;
export type PageFormat = (typeof PAGE_FORMATS)[number];

/** Words of an order. `View` and `PageFormat` are places in `views` and `PAGE_FORMATS`; `Wanted`: the turn of the last order whose page somebody gets. */
export const OrderWord = { Turn: 0, View: 1, Format: 2, Wanted: 3 } as const;
export const ORDER_WORDS = 4;
/** Times of an order. `NowUs`: the engine's clock when it was given; `DueMs`: the next step is due, milliseconds since 1970, or Infinity. */
export const OrderTime = { NowUs: 0, DueMs: 1 } as const;
export const ORDER_TIMES = 2;

/** The one message to the thread. */
export interface RendererSetup {
  readonly setup: Setup;
  /** Shared; the thread waits until `Turn` moves, and answers each order whose page somebody gets with a message. */
  readonly order: Int32Array;
  /** Shared: the held copies, as they are to be printed; empty where they lie in the pages of several processes. */
  readonly copies: Float64Array;
  /** Shared. */
  readonly times: Float64Array;
}
