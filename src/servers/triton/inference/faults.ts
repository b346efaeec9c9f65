/**
 * Selects the faults that disturb answers of inference (docs/reference/faults.md): by a header of the request, by a rule, or by chance.
 */

import type { FaultCarrier } from "../../../faults/plan/types.ts";
import type { Question } from "../../../text/canned/fixtures/match.ts";
import { BrokenScript } from "../../../text/canned/script.ts";
import { ORDER_HEADER, orderInHeader } from "../../openai/front/order-header.ts";
import { type ChosenFaults, FaultOrders } from "../../openai/overrides/fault-orders.ts";
import type { OpenAiKernel } from "../../openai/request/openai-config.ts";
import { type RequestOrders, requestOrdersOf } from "../../openai/request/request-orders.ts";

/** A request for inference over any protocol. */
export interface DisturbedRequest {
  readonly model: string;
  readonly path: string;
  readonly over: FaultCarrier;
  /** Number of other requests that are being served. */
  readonly open: number;
  header(name: string): string | null;
  headers(): Readonly<Record<string, string>>;
  /** Returns the body as JSON, or undefined if it has none. Called at most once, by the first rule that needs it. */
  body(): unknown;
}

/** The refusal of a fault header. */
export interface RefusedOrder {
  readonly status: 400 | 403;
  readonly message: string;
}

export class TritonFaults {
  readonly #orders: FaultOrders;
  readonly #allowed: RequestOrders;

  /** Number of answers that each fault affected, by fault id. */
  readonly acted = new Map<string, number>();

  constructor(kernel: OpenAiKernel) {
    const faulted = (id: string) => void this.acted.set(id, (this.acted.get(id) ?? 0) + 1);
    this.#orders = new FaultOrders(kernel, { faulted });
    this.#allowed = requestOrdersOf(kernel.config);
  }

  /** Reports whether a request with this header value, or null, may be disturbed. */
  may(order: string | null): boolean {
    return this.#orders.some || (order !== null && this.#allowed !== "none");
  }

  /** Returns the faults for a request, or null if there are none. Resolves later if a rule decides. */
  of(request: DisturbedRequest): Promise<ChosenFaults | RefusedOrder | null> | RefusedOrder | null {
    const order = this.#allowed === "none" ? null : request.header(ORDER_HEADER);
    const fault = order === null ? "" : faultIn(order);
    if (typeof fault === "object") return fault;
    const { path, open, over } = request;
    const found = this.#orders.disturbance({
      fault,
      trusted: this.#allowed === "all",
      open,
      header: (name) => request.header(name),
      target: path,
      over,
      question: () => questionOf(request),
    });
    return (
      found?.then((made) =>
        made === null || "plan" in made
          ? made
          : { status: made.status as RefusedOrder["status"], message: JSON.parse(made.body).error.message },
      ) ?? null
    );
  }
}

function faultIn(order: string): string | RefusedOrder {
  try {
    const { kind, fault = "" } = orderInHeader(order);
    if (kind === "none") return fault;
    return { status: 400, message: 'understudy: a Triton server takes orders of "fault" alone' };
  } catch (error) {
    if (error instanceof BrokenScript) return { status: 400, message: `understudy: ${error.message}` };
    throw error;
  }
}

function questionOf({ model, path, header, headers, body }: DisturbedRequest): Question {
  let read: { readonly body: unknown } | null = null;
  const bodyOnce = () => {
    read ??= { body: body() };
    return read.body;
  };
  return {
    path,
    model,
    user: () => userIn(bodyOnce()),
    messages: () => [],
    header: (name) => header(name.toLowerCase()),
    headers,
    body: bodyOnce,
  };
}

const TEXT = "text_input";

/** Returns the text, or the first of several: a JSON field, or an input of `/infer`. */
function userIn(body: unknown): string | null {
  const { [TEXT]: field, inputs } = (body ?? {}) as Readonly<Record<string, unknown>>;
  let text = field ?? (Array.isArray(inputs) ? inputs.find((one) => one?.name === TEXT)?.data : undefined);
  while (Array.isArray(text)) text = text[0];
  return typeof text === "string" ? text : null;
}
