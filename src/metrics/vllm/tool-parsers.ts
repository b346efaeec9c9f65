/** vLLM's metrics of its tool-call parsers (0.33, `parser/metrics.py`). Only shown with `--tool-call-parser`. */
import { PARSED_APIS, PARSED_HOW, toolLook } from "../../engine/interface/numbers.ts";
import { counter, type Row, withCreated } from "../rows/table.ts";

/** Series in order, with the number that each shows. vLLM's third request type is never counted here. */
const SERIES = PARSED_HOW.flatMap((how) =>
  [true, false].flatMap((called) =>
    [...PARSED_APIS, null].map((api) => ({
      labels: {
        mode: how === "Stream" ? "streaming" : "non_streaming",
        outcome: called ? "tool_call" : "no_tool_call",
        request_type: api === null ? "other" : api === "Chat" ? "chat_completions" : "responses",
      },
      look: api && toolLook(how, called, api),
    })),
  ),
);

export const toolParsers: readonly Row[] = withCreated([
  counter(
    "now",
    "vllm:tool_call_parser_invocations_total",
    "Total number of ToolParser invocations. Non-streaming increments once per choice; streaming increments once per delta.",
    ({ front }, { modelName }) =>
      SERIES.map(({ labels: { mode, ...rest }, look }) => [
        { mode, model_name: modelName, ...rest },
        look === null ? 0 : front.toolLooks[look],
      ]),
    { moves: "test/metrics/vllm/sequence.recorded.test.ts" },
  ),
]);
