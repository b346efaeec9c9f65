/**
 * Which headers of a request, and which metadata of a call, become its parameters? `--http-header-forward-pattern` and
 * `--grpc-header-forward-pattern`: `http_server.cc`, `infer_handler.h`, `command_line_parser.cc` (2026).
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

/** Throws a `TritonError` where a name that matches is Triton's own. */
export type ForwardPattern = (name: string) => boolean;

/** null: nothing is forwarded; "": everything. Letters match in either case. Throws a `UserError` if it is not a pattern of RE2. */
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
