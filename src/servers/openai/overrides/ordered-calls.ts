/** Writes the tool calls of an order as text in the model's format, so that the server's own parser finds them. */

import { textOfParts } from "../../../text/answers/answer-parts.ts";
import type { Order } from "../../../text/canned/script.ts";
import { orderedCallsText } from "../../../text/grammar/given-call.ts";
import type { ToolFormat } from "../../../text/grammar/parsers.ts";
import { callsBefore } from "../request/output-options.ts";
import type { ChatRequest, CompletionRequest } from "../request/request.ts";

/** The format without `--tool-call-parser`. Such a server has no parser, so the calls stay text. */
const WITHOUT_PARSER: ToolFormat = "hermes";

/** Returns the order with its calls as text. `parser`: undefined if the server has none. */
export function withCallsWritten(
  order: Order,
  request: ChatRequest | Pick<CompletionRequest, "kind">,
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
