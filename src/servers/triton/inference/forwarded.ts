/**
 * Selects the HTTP headers and gRPC metadata that become request parameters: `--http-header-forward-pattern` and
 * `--grpc-header-forward-pattern`. Source: `http_server.cc`, `infer_handler.h` and `command_line_parser.cc` (2026).
 */

import type { RE2JS } from "re2js";
import { re2 } from "../../../base/expression-libraries.ts";
import { UserError } from "../../../base/start-errors.ts";
import { invalidArg } from "../model-config/status.ts";
import type { VersionFacts } from "../model-config/versions.ts";

const RESERVED = [
  "sequence_id",
  "sequence_start",
  "sequence_end",
  "priority",
  "timeout",
  "headers",
  "binary_data_output",
];

/** Reports whether a name is forwarded. Throws a `TritonError` if a matching name is reserved for Triton. */
export type ForwardPattern = (name: string) => boolean;

/**
 * Compiles a pattern, which ignores case. Null: forwards nothing. "": forwards everything. Throws a `UserError` if it is not an
 * RE2 pattern.
 */
export function forwardPattern(
  protocol: "http" | "grpc",
  pattern: string | null,
  { refusesForwarded }: VersionFacts,
): ForwardPattern | null {
  if (pattern === null) return null;
  let compiled: RE2JS;
  try {
    compiled = re2().compile(`(?i)${pattern}`);
  } catch (error) {
    const why = (error as Error).message;
    throw new UserError(`--${protocol}-header-forward-pattern ${pattern}`, `takes a pattern of RE2 (${why})`);
  }
  return (name) => {
    if (name.startsWith(":") || !compiled.matcher(name).find()) return false;
    if (refusesForwarded && (RESERVED.includes(name) || name.startsWith("triton_")))
      throw invalidArg(`Header '${name}' is reserved for Triton usage and cannot be forwarded.`);
    return true;
  };
}
