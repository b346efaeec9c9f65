/** Writes the tool calls of an order as text of the model, so that the server's own parser finds them. */

import { textOfParts } from "../../../text/answers/answer-parts.ts";
import type { Order } from "../../../text/canned/script.ts";
import { orderedCallsText } from "../../../text/grammar/given-call.ts";
import type { ToolFormat } from "../../../text/grammar/parsers.ts";
import { callsBefore } from "../request/output-options.ts";
import type { ChatRequest, CompletionRequest } from "../request/request.ts";

/** The format without `--tool-call-parser`: the calls stay text then, as of a model whose server has no parser. */
const WITHOUT_PARSER: ToolFormat = "hermes";

/** Returns the order with the text of its calls; `parser`: undefined if the server has none. */
export function withCallsWritten(
  order: Order,
  request: ChatRequest | CompletionRequest,
  parser: ToolFormat | undefined,
): Order {
  const { toolCalls, script } = order;
  const form = parser ?? WITHOUT_PARSER;
  let before = request.kind === "chat" ? callsBefore(request) : 0;
  if (toolCalls !== undefined)
    return {
      ...order,
      text: orderedCallsText(form, { text: order.text, spaced: true, callsBefore: before }, toolCalls),
    };
  if (!script?.parts?.some(({ kind }) => kind === "calls")) return order;
  const parts = script.parts.map((part) => {
    if (part.calls === undefined) return part;
    const text = orderedCallsText(form, { text: "", spaced: true, callsBefore: before }, part.calls);
    before += part.calls.length;
    return { ...part, text };
  });
  return { ...order, text: textOfParts(parts), script: { ...script, parts } };
}
