/** Which metadata of a call become parameters of its requests? `--grpc-header-forward-pattern`: `infer_handler.h` (2026). */
import { RE2JS } from "re2js";
import type { GrpcCall } from "../../grpc/call.ts";
import { invalidArg } from "../../repository/config/status.ts";
import { toBytesText } from "../../repository/tensors/datatypes.ts";
import type { InferParameters } from "../server/request.ts";

const RESERVED = [
  "sequence_id",
  "sequence_start",
  "sequence_end",
  "priority",
  "timeout",
  "headers",
  "binary_data_output",
];

/** Throws a `TritonError` where a name is Triton's own. */
export type Forwarding = (call: GrpcCall) => InferParameters;

/** "": nothing is forwarded. Throws where it is no pattern of RE2. */
export function forwarding(pattern: string): Forwarding {
  if (pattern === "") return () => [];
  let compiled: RE2JS;
  try {
    compiled = RE2JS.compile(pattern);
  } catch (error) {
    throw new Error(`--grpc-header-forward-pattern ${pattern}: takes a pattern of RE2 (${(error as Error).message})`);
  }
  return (call) =>
    call.allMetadata
      .filter(([name]) => !name.startsWith(":") && compiled.matcher(name).find())
      .map(([name, value]) => {
        if (RESERVED.includes(name) || name.startsWith("triton_"))
          throw invalidArg(`Header '${name}' is reserved for Triton usage and cannot be forwarded.`);
        return [toBytesText(name), toBytesText(value)] as const;
      });
}
