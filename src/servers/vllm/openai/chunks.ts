/** Writes parts of streams: deltas of chats, errors of chats and of completions, and the last event of both. */
import type { ReasoningField } from "../../../text/grammar/parsers.ts";
import { escapeJson, quotedJson, quotedOrNull } from "../../../text/tokens/vocabulary.ts";
import type { CallDelta, Delta } from "../../openai/tool-calls/output.ts";
import { pythonDumps } from "../../pydantic/dumps.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";

export const DONE = "data: [DONE]\n\n";

/** Returns the event of an error in a chat's stream. Its data is the body of the same error without a stream. */
export function chatStreamError({ body }: ErrorAnswer): string {
  return `data: ${body}\n\n`;
}

/** Returns the event of an error in a completion's stream. vLLM writes it with `json.dumps`: with spaces, and ASCII only. */
export function completionStreamError({ body }: ErrorAnswer): string {
  const ascii = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return `data: ${pythonDumps(JSON.parse(body)).replace(/[\u0080-\uffff]/g, ascii)}\n\n`;
}

/** End of a delta without reasoning, of a server that writes reasoning under both names. */
export const COPIED_NULL = ',"reasoning_content":null';

/** Returns the JSON of a delta. `field`: the name of its reasoning, or "both". */
export function deltaJson({ content, reasoning, calls }: Delta, field: ReasoningField = "reasoning"): string {
  // Shortcut for most deltas.
  if (typeof content === "string" && reasoning === undefined && calls.length === 0 && field !== "both")
    return `{"content":"${escapeJson(content)}"}`;
  const members: string[] = [];
  if (content !== undefined) members.push(`"content":${quotedOrNull(content)}`);
  if (reasoning !== undefined && field !== "reasoning_content") members.push(`"reasoning":${quotedOrNull(reasoning)}`);
  if (field === "both" || (reasoning !== undefined && field === "reasoning_content"))
    members.push(`"reasoning_content":${quotedOrNull(reasoning)}`);
  if (calls.length > 0) members.push(`"tool_calls":[${calls.map(callJson)}]`);
  return `{${members}}`;
}

/** Returns the JSON of one delta of a tool call, as in `tool_calls` of a stream. */
export function callJson({ id, typed, index, name, arguments: more }: CallDelta): string {
  const members: string[] = [];
  if (id !== undefined) members.push(`"id":${quotedJson(id)}`);
  if (typed) members.push('"type":"function"');
  members.push(`"index":${index}`);
  const called: string[] = [];
  if (name !== undefined) called.push(`"name":${quotedJson(name)}`);
  if (more !== undefined) called.push(`"arguments":${quotedJson(more)}`);
  if (called.length > 0) members.push(`"function":{${called}}`);
  return `{${members}}`;
}
