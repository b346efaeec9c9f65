/** What may a client order for its request? docs/how-to/scripts.md. */
import type { OpenAiServerConfig } from "./openai-config.ts";

/** Nothing, as on the real server; what it is answered with; also what reaches the requests of others. */
export const REQUEST_ORDERS = ["none", "answers", "all"] as const;
export type RequestOrders = (typeof REQUEST_ORDERS)[number];

/** Nobody who shares a server expects that another client can end it. */
export const DEFAULT_REQUEST_ORDERS: RequestOrders = "answers";

export function requestOrdersOf({ openai }: Pick<OpenAiServerConfig, "openai">): RequestOrders {
  return openai.requests.requestOrders ?? DEFAULT_REQUEST_ORDERS;
}
