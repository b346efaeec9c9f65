/** Reads the lines of a user's own dataset: JSON objects with `prompt` or `messages`, and optional members. */
import type { Line } from "../../../workloads/lines.ts";
import { type BadLine, isCount, notThis } from "../../../workloads/trace.ts";
import type { Turn } from "../requests/types.ts";
import { type DatedTurn, isMessages, isMs, isTokens, jsonLines } from "./rows.ts";

const EXPECTED = 'a JSON object such as {"prompt": "Why is the sky blue?", "output_tokens": 100}';

export interface CustomShape {
  /** False for completions and embeddings, which accept token ids but no messages. */
  readonly chat: boolean;
  /** Output tokens for lines that do not state them. Null: no limit is sent. */
  readonly outputTokens: number | null;
}

/**
 * Reads turns. In a `session`, `prompt` is only the new part of the turn; `messages` are the whole conversation so far, as in
 * aiperf's traces.
 */
export function custom(lines: Iterable<Line>, { chat, outputTokens }: CustomShape): Generator<DatedTurn | BadLine> {
  return jsonLines(lines, EXPECTED, (row): Turn | string => {
    const { prompt, messages, output_tokens: output = outputTokens, timestamp = null, delay = 0, extra = {} } = row;
    const session = row.session ?? row.session_id ?? null;
    if ((prompt === undefined) === (messages === undefined)) return '"prompt" or "messages"';
    if (output !== null && !isTokens(output, 1))
      return notThis('"output_tokens": a whole number of at least 1', output);
    if (session !== null && typeof session !== "string") return notThis('"session": a text', session);
    if (timestamp !== null && !isMs(timestamp))
      return notThis('"timestamp": milliseconds, a number of at least 0', timestamp);
    if (!isMs(delay)) return notThis('"delay": milliseconds, a number of at least 0', delay);
    if (typeof extra !== "object" || extra === null || Array.isArray(extra))
      return notThis('"extra": a JSON object', extra);
    const turn = {
      conversation: session,
      inputTokens: null,
      outputTokens: output,
      arrivalUs: timestamp === null ? null : Math.round(timestamp * 1000),
      thinkUs: Math.round(delay * 1000),
      extra: extra as Turn["extra"],
    };
    if (messages !== undefined) {
      if (!chat) return '"prompt": messages are for chats';
      return isMessages(messages)
        ? { ...turn, prompt: messages, whole: true }
        : '"messages": an array of messages, each with a role';
    }
    if (typeof prompt === "string" && prompt !== "") return { ...turn, prompt };
    if (chat) return '"prompt": a text; chat takes no token ids';
    if (!Array.isArray(prompt) || prompt.length === 0 || !prompt.every((id) => isCount(id, 0))) {
      return '"prompt": a text or token ids';
    }
    return { ...turn, prompt, inputTokens: prompt.length };
  });
}
