/**
 * Reads agent traces of Weka and AgentX (kv-cache-tester; aiperf `weka_trace_models.py`): a JSON object per
 * conversation with its requests, times in seconds, and hash ids of the whole prompt. A subagent's requests are in a
 * nested list.
 */
import { type LooseObject, looseObject } from "../base/json-object.ts";
import type { Element } from "./elements.ts";
import { exactObjectIn } from "./identities.ts";
import { isPresent, promptOfRow, timeOf } from "./mooncake.ts";
import { isCount, notThis, type RowShape, type TraceItem, type TraceRequest } from "./trace.ts";

export const WEKA_BLOCK = 64;
const EXPECTED =
  'a conversation such as {"id": "c", "block_size": 64, "requests": [{"t": 0.5, "in": 130, "out": 9, "hash_ids": [1, 2, 3]}]}';

/** Returns the block size that the start of a file states, or null. */
export function wekaBlockSize(head: string): number | null {
  const size = Number(/"block_size"\s*:\s*(\d{1,7})\b/.exec(head)?.[1]);
  return size > 0 ? size : null;
}

export const isWekaHead = (head: string): boolean => /^[[{]/.test(head) && /"requests"\s*:\s*\[\s*\{/.test(head);

/**
 * Reads conversations, each of which starts at 0. A later request is not sent before its own time, nor before the
 * recorded pause after the previous answer. `skipRow` is called with the reason for each request without output.
 * `isStated`: the user sets the tokens per hash id, which overrides the file.
 */
export function* weka(
  objects: Iterable<Element>,
  shape: RowShape,
  skipRow: (reason: string) => void,
  isStated: boolean,
): Generator<TraceItem> {
  let conversations = 0;
  for (const { line, text } of objects) {
    const row = exactObjectIn(text);
    const wrong = wrongConversation(row, shape, isStated);
    if (wrong !== null) {
      yield { line, expected: wrong };
      continue;
    }
    const { requests, hash_id_scope: scope } = row!;
    // Ids are local to their conversation unless the file says that they are global.
    if (scope !== "global") shape.ids.forget();
    const name = String(conversations++);
    let before: RequestTimes | null = null;
    let startUs = 0;
    for (const request of flat(requests)) {
      const read = requestOf(request, line, shape, before);
      if (typeof read === "string") yield { line, expected: `in "requests": ${read}` };
      else {
        if (before === null) startUs = read.sent.atUs;
        const arrivalUs = Math.max(0, read.sent.atUs - startUs);
        const follows: boolean = before !== null;
        if (read.request.outputTokens === 0) skipRow("out is 0");
        else {
          before = read.sent;
          shape.times.add(arrivalUs);
          yield { ...read.request, arrivalUs, conversation: name, follows };
        }
      }
    }
  }
}

/** Times at which a request was sent and its answer ended, in microseconds since the conversation's start. */
interface RequestTimes {
  readonly atUs: number;
  readonly endUs: number;
}

function wrongConversation(row: LooseObject | null, { blockTokens }: RowShape, isStated: boolean): string | null {
  if (row === null || !Array.isArray(row.requests)) return EXPECTED;
  if (isStated || !isPresent(row.block_size) || row.block_size === blockTokens) return null;
  return notThis(`"block_size": ${blockTokens}, as in the first conversation`, row.block_size);
}

/** Returns the requests in order, with a subagent's requests in its place. */
function* flat(requests: readonly unknown[]): Generator<unknown> {
  for (const request of requests) {
    const nested = looseObject(request)?.requests;
    if (Array.isArray(nested)) yield* flat(nested);
    else yield request;
  }
}

/** Reads a request. If a value is wrong, returns the condition that it fails. */
function requestOf(
  value: unknown,
  line: number,
  shape: RowShape,
  before: RequestTimes | null,
): { readonly request: TraceRequest; readonly sent: RequestTimes } | string {
  const row = looseObject(value);
  if (row === null) return notThis('{"t": seconds, "in": tokens, "out": tokens, "hash_ids": […]}', value);
  const atUs = timeOf(row, "t", shape);
  if (typeof atUs === "string") return atUs;
  const tookUs = isPresent(row.api_time) ? timeOf(row, "api_time", shape) : 0;
  if (typeof tookUs === "string") return tookUs;
  const prompt = promptOfRow(row, shape, isCount, "in");
  if (typeof prompt === "string") return prompt;
  const { out: outputTokens } = row;
  if (!isCount(outputTokens, 0)) return notThis('"out": a whole number', outputTokens);
  const stated = isPresent(row.think_time) ? timeOf(row, "think_time", shape) : null;
  if (typeof stated === "string") return stated;
  const thinkUs = stated ?? Math.max(0, atUs - (before?.endUs ?? atUs));
  return { request: { line, arrivalUs: 0, ...prompt, outputTokens, thinkUs }, sent: { atUs, endUs: atUs + tookUs } };
}
