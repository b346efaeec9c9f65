/** Turns metadata of a call into parameters of its requests. */

import type { GrpcCall } from "../../../wire/grpc/call.ts";
import type { ForwardPattern } from "../inference/forwarded.ts";
import type { InferParameters } from "../inference/request.ts";
import { toBytesText } from "../tensors/datatypes.ts";

/** Returns the matching metadata. Throws a `TritonError` if a name is reserved. */
export const forwardedMetadata = (pattern: ForwardPattern | null, call: GrpcCall): InferParameters =>
  pattern === null
    ? []
    : call.allMetadata
        .filter(([name]) => pattern(name))
        .map(([name, value]) => [toBytesText(name), toBytesText(value)] as const);
