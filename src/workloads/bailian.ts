/**
 * Reads traces of Aliyun Bailian (alibaba-edu/qwen-bailian-usagetraces-anon, README at 03a51e3): JSON lines with seconds, 16
 * prompt tokens per hash id, and the chat that a turn continues. Each row has the whole prompt, its history included.
 */
import type { LooseObject } from "../base/json-object.ts";
import { isHashId, traceRowIn } from "./identities.ts";
import type { Line } from "./lines.ts";
import { promptOfRow, timeOf } from "./mooncake.ts";
import { isCount, notThis, type RowShape, TraceError, type TraceItem } from "./trace.ts";

export const BAILIAN_BLOCK = 16;
const EXPECTED =
  'a JSON object such as {"chat_id": 159, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 21, "output_length": 9, "turn": 1, "hash_ids": [7, 8]}';
/** Largest number of chats of a trace, because the conversation of each is kept in memory. */
const CHATS_MOST = 1 << 22;
/** `parent_chat_id` of the first turn of a conversation. */
const NO_PARENT = -1;

/** Reports whether a line, or its beginning, has the fields of a Bailian trace. */
export function isBailianRow(line: string): boolean {
  return line.startsWith("{") && /"chat_id"\s*:/.test(line) && /"parent_chat_id"\s*:/.test(line);
}

/** `skipRow` is called with the reason for each row without output. Throws a TraceError for more than `most` chats. */
export function* bailian(
  lines: Iterable<Line>,
  shape: RowShape,
  skipRow: (reason: string) => void,
  most = CHATS_MOST,
): Generator<TraceItem> {
  /** First chat of the conversation, by the id of each chat. */
  const roots = new Map<string, string>();
  for (const { number: line, text } of lines) {
    const row = traceRowIn(text);
    const read = row === null ? EXPECTED : requestOf(row, line, shape, roots);
    if (typeof read === "string") yield { line, expected: read };
    else {
      if (roots.size > most) throw new TraceError(`line ${line}: more than ${most} chats in a bailian trace`);
      if (read === null) skipRow("output_length is 0");
      else yield read;
    }
  }
}

/** Returns null if the row has no output. */
function requestOf(
  row: LooseObject,
  line: number,
  shape: RowShape,
  roots: Map<string, string>,
): TraceItem | string | null {
  const { chat_id: chat, parent_chat_id: parent, output_length: outputTokens } = row;
  if (!isHashId(chat)) return notThis('"chat_id": a whole number, or a text', chat);
  if (parent !== NO_PARENT && !isHashId(parent)) return notThis('"parent_chat_id": as "chat_id", or -1', parent);
  const arrivalUs = timeOf(row, "timestamp", shape);
  if (typeof arrivalUs === "string") return arrivalUs;
  const prompt = promptOfRow(row, shape, isCount);
  if (typeof prompt === "string") return prompt;
  if (!isCount(outputTokens, 0)) return notThis('"output_length": a whole number', outputTokens);
  const known = parent === NO_PARENT ? undefined : roots.get(String(parent));
  // A turn whose parent is not in the file begins a conversation.
  const root = known ?? String(chat);
  roots.set(String(chat), root);
  shape.times.add(arrivalUs, row.timestamp);
  if (outputTokens === 0) return null;
  return { line, arrivalUs, ...prompt, outputTokens, conversation: root, follows: known !== undefined };
}
