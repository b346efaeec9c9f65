/** Options that say how the rows of a trace are read. `load` and `replay` share them. */
import { choice, integer, type OptionRow } from "../options/option.ts";
import { TIMESTAMP_UNITS } from "../traces/timestamps.ts";
import type { TraceOptions } from "../traces/trace.ts";

export const traceOptions = {
  "timestamp-unit": {
    ...choice(...TIMESTAMP_UNITS),
    default: "ms for mooncake, s for bailian",
    about: "Unit of timestamps and delays in rows of a mooncake or bailian trace.",
  },
  "hash-block-tokens": {
    ...integer(1, 1e6),
    default: "512 for mooncake, 16 for bailian",
    about: "Prompt tokens per hash id of the trace.",
  },
} as const satisfies Record<string, Omit<OptionRow, "group">>;

export const traceOptionsOf = (values: {
  readonly "timestamp-unit"?: TraceOptions["timestampUnit"];
  readonly "hash-block-tokens"?: number | undefined;
}): TraceOptions => ({ timestampUnit: values["timestamp-unit"], hashBlockTokens: values["hash-block-tokens"] });
