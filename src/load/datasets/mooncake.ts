/**
 * What does a Mooncake trace order? Lengths and a hash id per block of the prompt: equal ids become equal text, so that
 * the server's prefix cache hits where the real one did. Also the forms that aiperf 0.13 adds (`mooncake_trace`): text,
 * messages or whole bodies in place of lengths, sessions of several turns, pauses.
 */
import { jsonObjectIn } from "../../config/json-object.ts";
import type { Line } from "../../traces/lines.ts";
import { type BadLine, isCount } from "../../traces/trace.ts";
import type { Turn } from "../types.ts";
import { type DatasetRow, type Dated, isMessages, isMs, isTokens, jsonLines } from "./rows.ts";
import { TO_THE_END } from "./synthetic.ts";
import type { PromptWriter, Streams, Symbols } from "./text.ts";

const EXPECTED = 'a JSON object such as {"timestamp": 0, "input_length": 700, "output_length": 20, "hash_ids": [0, 1]}';
/** What a prompt may be given as. */
const KINDS = ["input_length", "text_input", "messages", "payload"] as const;
/** aiperf's names: what is new in a turn, and the whole conversation so far. */
const DELTAS = "deltas_without_responses";
const WHOLE = "message_array_with_responses";

export interface MooncakeShape {
  /** Tokens per hash id. */
  readonly blockSize: number;
  /** False: completions, which take no messages. */
  readonly chat: boolean;
}

/** The backend's own, and the one for turns of conversations. */
export interface Writers {
  readonly writer: PromptWriter;
  readonly text: PromptWriter;
}

export function mooncakeDataset(
  lines: Iterable<Line>,
  { writer, text }: Writers,
  shape: MooncakeShape,
  streams: Streams,
): Generator<Dated | BadLine> {
  return jsonLines(lines, EXPECTED, (row, line) => {
    const common = commonOf(row);
    if (typeof common === "string") return common;
    const given = KINDS.filter((kind) => row[kind] !== undefined && row[kind] !== null);
    if (given.length !== 1) return `exactly one of ${KINDS.join(", ")}`;
    if (given[0] === "input_length") {
      return fromLength(row, line, common, common.conversation === null ? writer : text, shape, streams);
    }
    if (given[0] === "text_input") {
      const { text_input: prompt } = row;
      return typeof prompt === "string" && prompt !== "" ? { ...common, prompt } : '"text_input": a text';
    }
    return given[0] === "messages" ? fromMessages(row, common, shape) : fromPayload(row, common, shape);
  });
}

/** All but the prompt, or what was expected. */
function commonOf(row: DatasetRow): Omit<Turn, "prompt"> | string {
  const { timestamp, delay, session_id: session, output_length: output, extra, context_mode: mode } = row;
  if ((timestamp ?? null) !== null && !isMs(timestamp)) return '"timestamp": milliseconds, a number of at least 0';
  if ((delay ?? null) !== null && !isMs(delay)) return '"delay": milliseconds, a number of at least 0';
  if ((session ?? null) !== null && typeof session !== "string") return '"session_id": a text';
  if ((output ?? null) !== null && !isTokens(output, 1)) return '"output_length": a whole number of at least 1';
  if ((extra ?? null) !== null && (typeof extra !== "object" || Array.isArray(extra))) return '"extra": a JSON object';
  if ((mode ?? null) !== null && mode !== DELTAS && mode !== WHOLE) return `"context_mode": ${DELTAS} or ${WHOLE}`;
  return {
    conversation: (session as string | null | undefined) ?? null,
    inputTokens: null,
    outputTokens: (output as number | null | undefined) ?? null,
    arrivalUs: isMs(timestamp) ? Math.round(timestamp * 1000) : null,
    thinkUs: isMs(delay) ? Math.round(delay * 1000) : 0,
    extra: { ...(isTokens(output, 1) ? TO_THE_END : {}), ...(extra as DatasetRow | null | undefined) },
    ...(mode === WHOLE ? { whole: true as const } : {}),
  };
}

function fromLength(
  row: DatasetRow,
  line: number,
  common: Omit<Turn, "prompt">,
  writer: PromptWriter,
  { blockSize }: MooncakeShape,
  streams: Streams,
): Turn | string {
  const { input_length: length, hash_ids: given } = row;
  if (!isTokens(length, 1)) return '"input_length": a whole number of at least 1';
  const blocks = Math.ceil(length / blockSize);
  const ids: unknown = given ?? [];
  if (!Array.isArray(ids) || ids.length > blocks || !ids.every((id) => isCount(id, 0))) {
    return `"hash_ids": at most ${blocks} whole numbers, one per ${blockSize} tokens of input_length`;
  }
  const symbols: Symbols = [];
  ids.forEach((id: number, block) => {
    writer.append(symbols, streams.of("block", id), block * blockSize, Math.min((block + 1) * blockSize, length));
  });
  // What no id stands for is the request's own.
  const known = Math.min(ids.length * blockSize, length);
  writer.append(symbols, streams.of("own", line), known, length);
  return { ...common, prompt: writer.prompt(symbols), inputTokens: length };
}

/** Each line has the conversation so far, with the answers that were given then. */
function fromMessages(row: DatasetRow, common: Omit<Turn, "prompt">, { chat }: MooncakeShape): Turn | string {
  const { messages, tools } = row;
  if (!chat) return '"input_length" or "text_input": completions take no messages';
  if (!isMessages(messages)) return '"messages": an array of messages, each with a role';
  if ((tools ?? null) !== null && !Array.isArray(tools)) return '"tools": an array';
  const extra = Array.isArray(tools) ? { tools, ...common.extra } : common.extra;
  return { ...common, prompt: messages, extra, whole: true };
}

/** A whole body; whether it streams is not its business, since what comes is measured. */
function fromPayload(row: DatasetRow, common: Omit<Turn, "prompt">, { chat }: MooncakeShape): Turn | string {
  const payload = jsonObjectIn(JSON.stringify(row.payload));
  const { messages, prompt, stream: _, stream_options: __, ...rest } = payload ?? {};
  const extra = { ...rest, ...common.extra };
  if (chat && isMessages(messages)) return { ...common, prompt: messages, extra, whole: true };
  if (!chat && typeof prompt === "string") return { ...common, prompt, extra, whole: true };
  return `"payload": a body with ${chat ? '"messages", for chat' : '"prompt", a text, for completions'}`;
}
