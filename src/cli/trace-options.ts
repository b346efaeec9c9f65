/** Options for reading the rows of a trace, shared by `understudy load` and `understudy replay`. */

import { TIMESTAMP_UNITS } from "../workloads/timestamps.ts";
import type { TraceOptions } from "../workloads/trace.ts";
import { choice, commaList, integer, type PlainRow } from "./options/option.ts";

const names = commaList("NAMES", "names with commas between them, or all");

export const traceOptions = {
  "timestamp-unit": {
    ...choice(...TIMESTAMP_UNITS),
    default: "ms for mooncake, s for bailian and weka",
    about: "Unit of timestamps and delays in rows of a mooncake, bailian or weka trace.",
  },
  "hash-block-tokens": {
    ...integer(1, 1e6),
    default: "512 for mooncake, 16 for bailian, block_size for weka",
    about: "Prompt tokens per hash id of the trace.",
  },
  "trace-models": {
    ...names,
    default: "GPT-4",
    about: "Models whose rows of a BurstGPT trace are used, spelled as in the file; all: every model.",
  },
  "trace-log-types": {
    ...names,
    default: "all",
    about: "Log types whose rows of a BurstGPT trace are used, spelled as in the file.",
  },
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
