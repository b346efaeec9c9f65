/** Options for reading the rows of a trace, shared by `understudy load` and `understudy replay`. */

import { TIMESTAMP_UNITS } from "../workloads/timestamps.ts";
import type { TraceOptions } from "../workloads/trace.ts";
import { choice, commaList, integer, type PlainRow, row } from "./options/option.ts";

const names = commaList("NAMES", "names with commas between them, or all");

export const traceOptions = {
  "timestamp-unit": row("Unit of timestamps and delays in rows of a mooncake, bailian or weka trace.", {
    ...choice(...TIMESTAMP_UNITS),
    default: "ms for mooncake, s for bailian and weka",
  }),
  "hash-block-tokens": row("Prompt tokens per hash id of the trace.", {
    ...integer(1, 1e6),
    default: "512 for mooncake, 16 for bailian, block_size for weka",
  }),
  "trace-models": row("Models whose rows of a BurstGPT trace are used, spelled as in the file; all: every model.", {
    ...names,
    default: "GPT-4",
  }),
  "trace-log-types": row("Log types whose rows of a BurstGPT trace are used, spelled as in the file.", {
    ...names,
    default: "all",
  }),
} as const satisfies Record<string, PlainRow>;

export const traceOptionsOf = (values: {
  readonly "timestamp-unit"?: TraceOptions["timestampUnit"];
  readonly "hash-block-tokens"?: number | undefined;
  readonly "trace-models"?: readonly string[] | undefined;
  readonly "trace-log-types"?: readonly string[] | undefined;
}): TraceOptions => ({
  timestampUnit: values["timestamp-unit"],
  hashBlockTokens: values["hash-block-tokens"],
  models: values["trace-models"],
  logTypes: values["trace-log-types"],
});
