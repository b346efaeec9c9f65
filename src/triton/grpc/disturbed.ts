/** Are the answers of a call disturbed (docs/faults.md)? It is known with the first message; what comes until then is held. */

import { ORDER_HEADER } from "../../front/order-header.ts";
import type { CallHandler, GrpcCall } from "../../grpc/call.ts";
import type { GrpcMethod } from "../../grpc/server.ts";
import type { GrpcCode } from "../../grpc/status.ts";
import type { Clock } from "../../host/clock.ts";
import { pacing } from "../../http/deadlines.ts";
import type { ChosenFaults } from "../../orders/fault-orders.ts";
import type { ServerAround } from "../server/around.ts";
import type { RefusedOrder } from "../server/faults.ts";
import { type InferMessage, readInfer } from "./infer-request.ts";
import { ruleBody } from "./rule-body.ts";

const REFUSED: Readonly<Record<RefusedOrder["status"], GrpcCode>> = {
  400: "INVALID_ARGUMENT",
  403: "PERMISSION_DENIED",
};

export const disturbable =
  (around: ServerAround, clock: Pick<Clock, "now" | "at" | "about">, method: GrpcMethod): GrpcMethod =>
  (call) =>
    around.faults.may(call.metadata(ORDER_HEADER)) ? new Disturbable(call, around, clock, method) : method(call);

class Disturbable implements CallHandler {
  readonly #call: GrpcCall;
  readonly #around: ServerAround;
  readonly #clock: Pick<Clock, "now" | "at" | "about">;
  readonly #method: GrpcMethod;
  /** null: it is not yet known. */
  #handler: CallHandler | null = null;
  readonly #held: ((handler: CallHandler) => void)[] = [];
  #asked = false;

  constructor(call: GrpcCall, around: ServerAround, clock: Pick<Clock, "now" | "at" | "about">, method: GrpcMethod) {
    this.#call = call;
    this.#around = around;
    this.#clock = clock;
    this.#method = method;
  }

  message(bytes: Uint8Array): void {
    this.#later((handler) => handler.message(bytes));
    if (this.#asked) return;
    this.#asked = true;
    this.#choose(bytes).catch((why) => this.#call.fail(why));
  }

  halfClosed(): void {
    this.#later((handler) => handler.halfClosed());
    if (!this.#asked) this.#go();
  }

  cancelled(): void {
    this.#held.length = 0;
    this.#handler?.cancelled();
  }

  #later(act: (handler: CallHandler) => void): void {
    if (this.#handler === null) this.#held.push(act);
    else act(this.#handler);
  }

  async #choose(bytes: Uint8Array): Promise<void> {
    const call = this.#call;
    const { faults, server } = this.#around;
    const message = messageIn(bytes);
    const found = await faults.of({
      model: message?.modelName ?? "",
      path: call.path,
      over: "grpc",
      open: server.live,
      header: (name) => call.metadata(name),
      headers: () => Object.fromEntries(call.allMetadata),
      body: () => message && ruleBody(message),
    });
    if (call.over) return;
    if (found === null) this.#go();
    else if ("message" in found) call.end({ code: REFUSED[found.status], message: found.message });
    else if (found.instead !== null) this.#instead(found.instead);
    else await this.#disturb(found);
  }

  /** As a proxy answers: clients make a status of it. */
  #instead({ status, headers, body }: NonNullable<ChosenFaults["instead"]>): void {
    const fields = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value] as const);
    this.#call.answerAsHttp([[":status", `${status}`], ...fields], body);
  }

  async #disturb(order: ChosenFaults): Promise<void> {
    const { FaultyMessages } = await import("../../grpc/faulty.ts");
    const call = this.#call;
    const timer = pacing(this.#clock);
    call.disturb((stream, held, lost) => new FaultyMessages(order, timer, { stream, line: call.line, held }, lost));
    if (!call.over) this.#go();
  }

  #go(): void {
    const handler = this.#method(this.#call);
    this.#handler = handler;
    for (const act of this.#held.splice(0)) if (!this.#call.over) act(handler);
  }
}

/** Undefined: the bytes are none. */
function messageIn(bytes: Uint8Array): InferMessage | undefined {
  try {
    return readInfer(bytes);
  } catch {
    return undefined;
  }
}
