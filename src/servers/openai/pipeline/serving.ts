/** Types of the parts of a server that a request passes on its way to the engine, and of the request at these stages. */

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

/** The parts of a server that a request passes. */
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
export interface ReceivedRequest extends FormedRequest {
  readonly http: HttpRequest;
  readonly body: Body;
  /** Number of bytes that are garbage after the request was prepared. */
  readonly bytes: number;
  /** Prompts that the reading thread has made. Absent: they are made later. */
  readonly prompts?: readonly (PackedParts | Uint32Array)[];
  /** Time when the body had arrived. */
  readonly arrivalUs: number;
}

/** A request that is refused before the engine gets it. */
export interface DeclinedRequest {
  readonly error: ErrorAnswer;
  /** The truncated prompts. Set if vLLM finds the error only after it has sent the head of a stream. */
  readonly cut?: readonly Cut[];
}
