/**
 * Disturbs the answers of a call by faults (docs/reference/faults.md). The faults are chosen at the first message; later messages wait
 * until then.
 */

import type { Clock } from "../../../base/clock.ts";
import type { CallHandler, GrpcCall } from "../../../wire/grpc/call.ts";
import type { GrpcMethod } from "../../../wire/grpc/server.ts";
import type { GrpcCode } from "../../../wire/grpc/status.ts";
import { pacing } from "../../../wire/http/deadlines.ts";
import { ORDER_HEADER } from "../../openai/front/order-header.ts";
import type { ChosenFaults } from "../../openai/overrides/fault-orders.ts";
import type { ServerAround } from "../inference/around.ts";
import type { RefusedOrder } from "../inference/faults.ts";
import { readInfer } from "./infer-request.ts";
import { readWith, roomOf } from "./reading.ts";
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
  /** Null until the faults of the call are known. */
  #handler: CallHandler | null = null;

  constructor(
    private readonly call: GrpcCall,
    private readonly around: ServerAround,
    private readonly clock: Pick<Clock, "now" | "at" | "about">,
    private readonly method: GrpcMethod,
  ) {}

  message(bytes: Uint8Array): void | Promise<void> {
    return this.#handler === null ? this.#first(bytes) : this.#handler.message(bytes);
  }

  halfClosed(): void {
    this.#handler ??= this.method(this.call);
    this.#handler.halfClosed();
  }

  cancelled(): void {
    this.#handler?.cancelled();
  }

  /** Chooses the faults at the first message, and passes the message on before the next one. */
  async #first(bytes: Uint8Array): Promise<void> {
    await this.#choose(bytes);
    if (this.call.over) return;
    this.#handler = this.method(this.call);
    await this.#handler.message(bytes);
  }

  async #choose(bytes: Uint8Array): Promise<void> {
    const call = this.call;
    const { faults, server } = this.around;
    const room = roomOf(this.around);
    // The method reads the bytes again, so they must not be freed here.
    const read = await readWith(readInfer(bytes, room), bytes.subarray(0, 0), room, this.around);
    const message = "code" in read ? undefined : read;
    const found = await faults.of({
      model: message?.model_name ?? "",
      path: call.path,
      over: "grpc",
      open: server.live,
      header: (name) => call.metadata(name),
      headers: () => Object.fromEntries(call.allMetadata),
      body: () => message && ruleBody(message),
    });
    room.free();
    if (call.over || found === null) return;
    if ("message" in found) call.end({ code: REFUSED[found.status], message: found.message });
    else if (found.instead !== null) this.#instead(found.instead);
    else await this.#disturb(found);
  }

  /** Answers in HTTP like a proxy. gRPC clients map the answer to a status. */
  #instead({ status, headers, body }: NonNullable<ChosenFaults["instead"]>): void {
    const fields = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value] as const);
    this.call.answerAsHttp([[":status", `${status}`], ...fields], body);
  }

  async #disturb(order: ChosenFaults): Promise<void> {
    const { FaultyMessages } = await import("../../../wire/grpc/faulty.ts");
    const call = this.call;
    const timer = pacing(this.clock);
    call.disturb(
      (stream, held, lost) => new FaultyMessages(order, timer, { stream, connection: call.connection, held }, lost),
    );
  }
}
