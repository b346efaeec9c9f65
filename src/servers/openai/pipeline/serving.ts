/** The parts of a server that requests pass on their way to the engine, and what each request brings. Types only. */

import type { PackedParts } from "../../../text/tokens/packed-parts.ts";
import type { HttpRequest } from "../../../wire/http/request.ts";
import type { Body } from "../../pydantic/read-body.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import type { LoraAdapters } from "../front/adapters.ts";
import type { Admission } from "../front/admission.ts";
import type { RouteDeps } from "../front/checked.ts";
import type { Queue } from "../front/queue.ts";
import type { FaultOrders } from "../overrides/fault-orders.ts";
import type { Orders } from "../overrides/orders.ts";
import type { Cut } from "../request/generation.ts";
import type { Transfers } from "../request/kv-transfer.ts";
import type { ServerTraits } from "../request/server-traits.ts";
import type { FormedRequest } from "./form.ts";

/** The parts of a server that requests pass. */
export interface Serving extends RouteDeps {
  readonly server: ServerTraits;
  readonly adapters: LoraAdapters;
  readonly admission: Admission;
  readonly orders: Orders;
  readonly faults: FaultOrders;
  readonly queue: Queue;
  readonly transfers: Transfers;
}

/** A request whose body was read. */
export interface Received extends FormedRequest {
  readonly http: HttpRequest;
  readonly body: Body;
  /** What of it is garbage soon. */
  readonly bytes: number;
  /** Prompts whose parts another thread has put together; absent: they are still to be made. */
  readonly prompts?: readonly (PackedParts | Uint32Array)[];
  /** The engine's clock. */
  readonly arrivalUs: number;
}

/** A request that the engine does not get. */
export interface Declined {
  readonly error: ErrorAnswer;
  /** What vLLM finds when the head of a stream is out; the prompts as they were cut. Absent: found before. */
  readonly cut?: readonly Cut[];
}
