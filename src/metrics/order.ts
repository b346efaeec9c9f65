/** Orders pages from the metrics thread through shared memory: one order at a time, numbered by its turn. */
import type { Setup } from "./rows/identity.ts";

export const PAGE_FORMATS = ["text", "openmetrics"] as const;
export type PageFormat = (typeof PAGE_FORMATS)[number];

/**
 * Words of an order. `View` and `PageFormat` are indices in `views` and `PAGE_FORMATS`. `Wanted`: turn of the last
 * order whose page a scrape receives.
 */
export const OrderWord = { Turn: 0, View: 1, Format: 2, Wanted: 3 } as const;
export const ORDER_WORDS = 4;
/** Times of an order. `NowUs`: engine time of the order. `DueMs`: time of the next step in milliseconds since 1970, or Infinity. */
export const OrderTime = { NowUs: 0, DueMs: 1 } as const;
export const ORDER_TIMES = 2;

/** The only message to the thread. */
export interface RendererSetup {
  readonly setup: Setup;
  /** Shared memory. The thread waits until `Turn` changes. It answers each order whose page is wanted with a `RenderedPage`. */
  readonly order: Int32Array;
  /** Shared memory: the snapshot copies to print. Empty if they are in the pages of several processes. */
  readonly copies: Float64Array;
  /** Shared memory, see `OrderTime`. */
  readonly times: Float64Array;
}

/** Answer of the thread to an order. */
export interface RenderedPage {
  /** Turn of the order that this page answers. */
  readonly turn: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/**
 * Blocks the calling thread until `Turn` differs from `seen`, and returns it. A wake-up alone is not a new order. The
 * other thread may be interrupted between changing `Turn` and `notify`. Its late `notify` then wakes a thread that has
 * already taken the order.
 */
export function awaitTurn(order: Int32Array, seen: number): number {
  let turn = Atomics.load(order, OrderWord.Turn);
  while (turn === seen) {
    Atomics.wait(order, OrderWord.Turn, seen);
    turn = Atomics.load(order, OrderWord.Turn);
  }
  return turn;
}
