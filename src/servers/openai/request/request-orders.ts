/** The option that limits what a client may order for its request: `--allow-request-orders` (docs/how-to/scripts.md). */
import type { OpenAiServerConfig } from "./openai-config.ts";

/** `none`: no orders, as on the real server. `answers`: the client's own answer. `all`: also effects on other requests. */
export const REQUEST_ORDERS = ["none", "answers", "all"] as const;
export type RequestOrders = (typeof REQUEST_ORDERS)[number];

/** The default excludes effects on others, because a client should not be able to end a shared server. */
export const DEFAULT_REQUEST_ORDERS: RequestOrders = "answers";

/** Returns the value of `--allow-request-orders`, or its default. */
export function requestOrdersOf({ openai }: Pick<OpenAiServerConfig, "openai">): RequestOrders {
  return openai.requests.requestOrders ?? DEFAULT_REQUEST_ORDERS;
}
