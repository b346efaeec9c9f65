/**
 * Reads a folder of `understudy proxy --record DIR` (docs/how-to/record.md). Each file has a request and the events of its answer
 * with their times. Only streams show steps. Token counts are from the usage of the answer.
 */
import { looseList, looseObject } from "../../base/json-object.ts";
import { dataIn, isStreamed, type Recording, recordingIn } from "../../text/canned/fixtures/recording.ts";
import { isCount, TraceError } from "../../workloads/trace.ts";
import type { AnsweredRequest } from "./run.ts";
import type { JsonRecord } from "./vllm.ts";

/** A recorded stream. */
export interface RecordedStream extends Omit<AnsweredRequest, "inputTokens"> {
  /** Prompt tokens. Null if the answer has no usage. */
  readonly inputTokens: number | null;
  /** Text of the prompt, or its number of token ids. It is used to count tokens if there is no usage. */
  readonly prompt: string | number;
}

// biome-ignore lint/suspicious/noExplicitAny: JSON of any answer, looked into by its names.
type Json = any;

/** Reports whether a proxy wrote the file. */
export const isRecord = (json: JsonRecord): boolean => (json as Json).answer?.recorded !== undefined;

/**
 * Returns the times of a stream. Null for an answer in one body, a failure, or several choices, which do not show when tokens
 * came. Throws a TraceError for a bad record.
 */
export function recordedStream(json: JsonRecord, name: string): RecordedStream | null {
  const { match, answer } = json as Json;
  const recorded = recordingIn(answer.recorded);
  if (typeof recorded === "string") throw new TraceError(`${name}: answer.recorded: ${recorded}`);
  if (!isStreamed(recorded) || recorded.status !== 200 || recorded.broken) return null;
  const { arrival_us: sentUs } = recorded;
  if (sentUs === undefined) throw new TraceError(`${name}: has no arrival time of the request; record it again`);
  const times = readEvents(recorded);
  if (times === null || times.tokensUs.length === 0) return null;
  const { tokensUs, endUs, inputTokens, outputTokens } = times;
  const firstUs = sentUs + tokensUs[0]!;
  return {
    sentUs,
    firstUs,
    lastUs: sentUs + Math.max(endUs, tokensUs.at(-1)!),
    inputTokens,
    outputTokens: outputTokens ?? tokensUs.length,
    // If an event has several tokens or none, only the first and the last time are those of tokens.
    laterUs: (outputTokens ?? tokensUs.length) === tokensUs.length ? tokensUs.slice(1).map((us) => sentUs + us) : null,
    prompt: promptOf(match?.body ?? {}),
  };
}

interface StreamTimes {
  /** Arrival time of each token, in microseconds after the request. */
  readonly tokensUs: readonly number[];
  /** Time of the event with the finish reason, in microseconds after the request. */
  readonly endUs: number;
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
}

/** Matches events with text, reasoning, or arguments of a call. */
const DELTAS = /^(content_block_delta|response\.(output_text|reasoning_text|function_call_arguments)\.delta)$/;
const ENDS = ["message_delta", "response.completed", "response.incomplete"];

function readEvents({ events }: Recording): StreamTimes | null {
  const tokensUs: number[] = [];
  let [endUs, inputTokens, outputTokens]: [number, number | null, number | null] = [0, null, null];
  for (const [us, text] of events) {
    for (const json of dataIn(text)) {
      const [first, other] = looseList(json.choices);
      const choice = looseObject(first) as Json;
      if (other !== undefined || (choice?.index ?? 0) !== 0) return null;
      // Skip the first chunk of a chat, which has only the role and no token.
      const speaks = choice?.delta?.role !== undefined && !choice.delta.content && !choice.finish_reason;
      if ((choice !== null && !speaks) || DELTAS.test(textOf(json.type))) tokensUs.push(us);
      if (choice?.finish_reason || ENDS.includes(json.type)) endUs = us;
      const usage = json.usage ?? json.message?.usage ?? json.response?.usage ?? {};
      inputTokens = countIn(usage.prompt_tokens ?? usage.input_tokens) ?? inputTokens;
      outputTokens = countIn(usage.completion_tokens ?? usage.output_tokens) ?? outputTokens;
    }
  }
  return { tokensUs, endUs, inputTokens, outputTokens };
}

/** Returns the texts of a request. The record has each field's value under `equals`. */
function promptOf(body: Json): string | number {
  const prompt = body.prompt?.equals;
  if (Array.isArray(prompt) && typeof prompt[0] === "number") return prompt.length;
  return [body.system, body.messages, body.input, body.prompt]
    .map((field) => textsIn(looseObject(field)?.equals))
    .join("");
}

/** Maximum nesting of lists and objects that are searched for text. */
const DEPTH_MOST = 64;

function textsIn(value: Json, depth = 0): string {
  if (typeof value === "string") return value;
  if (depth === DEPTH_MOST) return "";
  if (Array.isArray(value)) return value.map((part) => textsIn(part, depth + 1)).join("");
  const fields = looseObject(value);
  return fields === null ? "" : textsIn(fields.content ?? fields.text ?? "", depth + 1);
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");
/** Returns a number of tokens. Null if the value is not one. */
const countIn = (value: unknown): number | null => (isCount(value, 0) ? value : null);
