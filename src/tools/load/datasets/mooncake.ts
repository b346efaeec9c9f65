/**
 * Makes requests from a Mooncake trace, which has lengths and a hash id per block of the prompt. Equal ids become equal text,
 * so that the server's prefix cache has the same hits as the real one. Also reads the forms that aiperf 0.13 adds
 * (`mooncake_trace`): text, messages or whole bodies in place of lengths, sessions of several turns, pauses.
 */
import { jsonObjectIn } from "../../../base/json-object.ts";
import type { Line } from "../../../workloads/lines.ts";
import { isPresent, MOONCAKE_EXPECTED, promptOfRow, rowTimesOf } from "../../../workloads/mooncake.ts";
import { type BadLine, notThis, type RowShape } from "../../../workloads/trace.ts";
import { TO_THE_END } from "../requests/body.ts";
import type { Turn } from "../requests/types.ts";
import { type DatasetRow, type DatedTurn, isMessages, isTokens, jsonLines } from "./rows.ts";
import type { PromptWriter, Streams, Symbols } from "./text.ts";

/** Members that may give the prompt. A row must have exactly one of them. */
const KINDS = ["input_length", "text_input", "messages", "payload"] as const;
/** aiperf's context modes: only the new part of a turn, or the whole conversation so far. */
const DELTAS = "deltas_without_responses";
const WHOLE = "message_array_with_responses";

export interface MooncakeShape {
  readonly rows: RowShape;
  /** False for completions, which accept no messages. */
  readonly chat: boolean;
}

/** Writers of prompts: one in the format of the backend, and one for turns of conversations, which are always text. */
export interface Writers {
  readonly writer: PromptWriter;
  readonly text: PromptWriter;
}

export function mooncakeDataset(
  lines: Iterable<Line>,
  { writer, text }: Writers,
  shape: MooncakeShape,
  streams: Streams,
): Generator<DatedTurn | BadLine> {
  /** First hash id of each session. Takes as much memory as the names of the sessions. */
  const beginnings = new Map<string, number>();
  return jsonLines(lines, MOONCAKE_EXPECTED, (row, line) => {
    const common = commonOf(row, shape.rows);
    if (typeof common === "string") return common;
    const kinds = KINDS.filter((kind) => row[kind] !== undefined && row[kind] !== null);
    if (kinds.length !== 1) return `exactly one of ${KINDS.join(", ")}`;
    if (kinds[0] === "input_length") {
      return fromLength(row, line, common, common.conversation === null ? writer : text, shape, streams, beginnings);
    }
    if (kinds[0] === "text_input") {
      const { text_input: prompt } = row;
      return typeof prompt === "string" && prompt !== "" ? { ...common, prompt } : '"text_input": a text';
    }
    return kinds[0] === "messages" ? fromMessages(row, common, shape) : fromPayload(row, common, shape);
  });
}

/** Reads everything except the prompt. If a value is wrong, returns the condition that it violates, as text. */
function commonOf(row: DatasetRow, rows: RowShape): Omit<Turn, "prompt"> | string {
  const time = rowTimesOf(row, rows);
  if (typeof time === "string") return time;
  const { output_length: output, extra, context_mode: mode } = row;
  if (isPresent(output) && !isTokens(output, 1))
    return notThis('"output_length": a whole number of at least 1', output);
  if (isPresent(extra) && (typeof extra !== "object" || Array.isArray(extra)))
    return notThis('"extra": a JSON object', extra);
  if (isPresent(mode) && mode !== DELTAS && mode !== WHOLE)
    return notThis(`"context_mode": ${DELTAS} or ${WHOLE}`, mode);
  if (time.arrivalUs !== null) rows.times.add(time.arrivalUs, row.timestamp as number);
  return {
    conversation: time.session,
    inputTokens: null,
    outputTokens: (output as number | null | undefined) ?? null,
    arrivalUs: time.arrivalUs,
    thinkUs: time.thinkUs ?? 0,
    extra: { ...(isTokens(output, 1) ? TO_THE_END : {}), ...(extra as DatasetRow | null | undefined) },
    ...(mode === WHOLE ? { whole: true as const } : {}),
  };
}

function fromLength(
  row: DatasetRow,
  line: number,
  common: Omit<Turn, "prompt">,
  writer: PromptWriter,
  { rows }: MooncakeShape,
  streams: Streams,
  beginnings: Map<string, number>,
): Turn | string {
  const read = promptOfRow(row, rows, isTokens);
  if (typeof read === "string") return read;
  const { promptTokens, blockIds } = read;
  const { blockTokens } = rows;
  const whole = repeatsItsBeginning(row, common, blockIds, beginnings) ? { whole: true as const } : {};
  const prompt = promptOfIds(writer, streams, { line, promptTokens, blockIds: blockIds ?? [], blockTokens });
  return { ...common, ...whole, prompt, inputTokens: promptTokens };
}

/**
 * True if a row of a session is the whole prompt so far, because its first hash id is that of the session's first row. False
 * if the row states its context mode.
 */
function repeatsItsBeginning(
  row: DatasetRow,
  { conversation }: Omit<Turn, "prompt">,
  blockIds: readonly number[] | null,
  beginnings: Map<string, number>,
): boolean {
  const first = blockIds?.[0];
  if (conversation === null || first === undefined || isPresent(row.context_mode)) return false;
  const beginning = beginnings.get(conversation);
  if (beginning === undefined) beginnings.set(conversation, first);
  return beginning === first;
}

interface IdPrompt {
  readonly line: number;
  readonly promptTokens: number;
  readonly blockIds: readonly number[];
  readonly blockTokens: number;
}

/** Writes a prompt in which equal hash ids give equal text. Tokens without an id are drawn for this line alone. */
export function promptOfIds(
  writer: PromptWriter,
  streams: Streams,
  { line, promptTokens, blockIds, blockTokens }: IdPrompt,
): string | readonly number[] {
  const symbols: Symbols = [];
  blockIds.forEach((id, block) => {
    const from = block * blockTokens;
    writer.append(symbols, streams.of("block", id), from, Math.min(from + blockTokens, promptTokens));
  });
  const known = Math.min(blockIds.length * blockTokens, promptTokens);
  writer.append(symbols, streams.of("own", line), known, promptTokens);
  return writer.prompt(symbols);
}

/** Reads a row with messages: the conversation so far, with the original answers. */
function fromMessages(row: DatasetRow, common: Omit<Turn, "prompt">, { chat }: MooncakeShape): Turn | string {
  const { messages, tools } = row;
  if (!chat) return '"input_length" or "text_input": completions take no messages';
  if (!isMessages(messages)) return '"messages": an array of messages, each with a role';
  if ((tools ?? null) !== null && !Array.isArray(tools)) return '"tools": an array';
  const extra = Array.isArray(tools) ? { tools, ...common.extra } : common.extra;
  return { ...common, prompt: messages, extra, whole: true };
}

/** Reads a row with a whole body. Whether the body asks for a stream is ignored, because the run decides on it. */
function fromPayload(row: DatasetRow, common: Omit<Turn, "prompt">, { chat }: MooncakeShape): Turn | string {
  const payload = jsonObjectIn(JSON.stringify(row.payload));
  const { messages, prompt, stream: _, stream_options: __, ...rest } = payload ?? {};
  const extra = { ...rest, ...common.extra };
  if (chat && isMessages(messages)) return { ...common, prompt: messages, extra, whole: true };
  if (!chat && typeof prompt === "string") return { ...common, prompt, extra, whole: true };
  return `"payload": a body with ${chat ? '"messages", for chat' : '"prompt", a text, for completions'}`;
}
