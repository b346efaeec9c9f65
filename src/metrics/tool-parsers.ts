/** What does vLLM count of its parsers of tool calls (0.33, `parser/metrics.py`)? Shown with `--tool-call-parser` alone. */
import type { FrontSnapshot } from "../engine/types.ts";
import { counter, type Row, withCreated } from "./table.ts";

/** In the order of the series; vLLM's third type of request is never counted here. */
const SERIES = ["streaming", "non_streaming"].flatMap((mode) =>
  ["tool_call", "no_tool_call"].flatMap((outcome) =>
    ["chat_completions", "responses", "other"].map((request_type) => ({ mode, outcome, request_type })),
  ),
);

const NUMBERS: readonly (keyof FrontSnapshot | null)[] = [
  "toolsStreamCalledChat",
  "toolsStreamCalledResponses",
  null,
  "toolsStreamPlainChat",
  "toolsStreamPlainResponses",
  null,
  "toolsWholeCalledChat",
  "toolsWholeCalledResponses",
  null,
  "toolsWholePlainChat",
  "toolsWholePlainResponses",
  null,
];

export const toolParsers: readonly Row[] = withCreated([
  counter(
    "now",
    "vllm:tool_call_parser_invocations_total",
    "Total number of ToolParser invocations. Non-streaming increments once per choice; streaming increments once per delta.",
    ({ front }, { modelName }) =>
      SERIES.map(({ mode, ...rest }, i) => {
        const number = NUMBERS[i];
        return [{ mode, model_name: modelName, ...rest }, number ? (front[number] as number) : 0];
      }),
    { moves: "test/conformance/metrics-sequence.test.ts" },
  ),
]);
