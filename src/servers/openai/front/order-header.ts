/** Reads the header by which a request orders its answer (docs/how-to/scripts.md). */

import { resultOrError } from "../../../base/result-or-error.ts";
import { BrokenScript, type Order, parseOrder } from "../../../text/canned/script.ts";
import type { OpenAiKernel } from "../request/openai-config.ts";
import { requestOrdersOf } from "../request/request-orders.ts";

export const ORDER_HEADER = "x-understudy";

/** Text of the last header, with its order or its error. Kept because several parts of the server read the same header. */
let last: { readonly text: string; readonly order: Order | BrokenScript } | null = null;

/** Reads the order in a header's text. Throws `BrokenScript`. */
export function orderInHeader(text: string): Order {
  const order = read(text);
  if (order instanceof BrokenScript) throw order;
  return order;
}

/** Reports whether a header orders the server to continue an engine that a script has stopped. A broken order does not. */
export function releasesEngine(text: string): boolean {
  const order = read(text);
  return !(order instanceof BrokenScript) && order.releases;
}

/** Reports whether a script may stop the engine, so that the order `release` can have an effect. */
export function mayRelease({ config, text: { canned } }: OpenAiKernel): boolean {
  const allowed = requestOrdersOf(config);
  return allowed === "all" || (allowed === "answers" && (canned.plays !== undefined || canned.fixtures !== undefined));
}

function read(text: string): Order | BrokenScript {
  if (last?.text !== text) last = { text, order: resultOrError(BrokenScript, () => parseOrder(text)) };
  return last.order;
}
