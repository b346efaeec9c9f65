/** Defines the way of a recorded request to the core. By default it takes none; a protocol of messages is another. */
import type { CoreRequest } from "../../src/engine/core-request.ts";

/** Sends a request on its way, and returns it as it arrives at the core. `salt`: its text, of which the core has a hash. */
export type RequestPath = (request: CoreRequest, salt: string | undefined) => CoreRequest;

export const directly: RequestPath = (request) => request;
