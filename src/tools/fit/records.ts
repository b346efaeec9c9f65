/**
 * What stands in a folder of `understudy proxy --record DIR` (docs/proxies.md)? Each file has a request and its answer's
 * events with their times. Streams alone tell of steps; counts of tokens are those of the answer's usage.
 */
import { looseList, looseObject } from "../../base/json-object.ts";
import { dataIn, isStreamed, type Recording, recordingIn } from "../../text/canned/fixtures/recording.ts";
import { isCount, TraceError } from "../../workloads/trace.ts";
import type { Answered } from "./run.ts";
import type { JsonRecord } from "./vllm.ts";

/** A stream that passed. */
export interface PassedStream extends Omit<Answered, "inputTokens"> {
  /** null: the answer has no usage. */
  readonly inputTokens: number | null;
  /** What was asked, or how many ids; to be counted where there is no usage. */
  readonly prompt: string | number;
}

// biome-ignore lint/suspicious/noExplicitAny: JSON of any answer, looked into by its names.
type Json = any;

/** Whether a proxy wrote it. */
export const isRecord = (json: JsonRecord): boolean => (json as Json).answer?.recorded !== undefined;

/** null: an answer in one piece, a failure, several answers of one request: they do not tell when tokens came. */
export function passedStream(json: JsonRecord, name: string): PassedStream | null {
  const { match, answer } = json as Json;
  const recorded = recordingIn(answer.recorded);
  if (typeof recorded === "string") throw new TraceError(`${name}: answer.recorded: ${recorded}`);
  if (!isStreamed(recorded) || recorded.status !== 200 || recorded.broken) return null;
  const { arrival_us: sentUs } = recorded;
  if (sentUs === undefined) throw new TraceError(`${name}: does not say when the request came; record it anew`);
  const read = readEvents(recorded);
  if (read === null || read.tokensUs.length === 0) return null;
  const { tokensUs, endUs, inputTokens, outputTokens } = read;
  const firstUs = sentUs + tokensUs[0]!;
  return {
    sentUs,
    firstUs,
    lastUs: sentUs + Math.max(endUs, tokensUs.at(-1)!),
    inputTokens,
    outputTokens: outputTokens ?? tokensUs.length,
    // Where an event brought several tokens, or none, only the first and last times are those of tokens.
    laterUs: (outputTokens ?? tokensUs.length) === tokensUs.length ? tokensUs.slice(1).map((us) => sentUs + us) : null,
    prompt: promptOf(match?.body ?? {}),
  };
}

interface Read {
  /** Microseconds after the request. */
  readonly tokensUs: readonly number[];
  /** When the event came that says why it ends. */
  readonly endUs: number;
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
}

/** Pieces of text, of what is thought, of a call's arguments. */
const DELTAS = /^(content_block_delta|response\.(output_text|reasoning_text|function_call_arguments)\.delta)$/;
const ENDS = ["message_delta", "response.completed", "response.incomplete"];

function readEvents({ events }: Recording): Read | null {
  const tokensUs: number[] = [];
  let [endUs, inputTokens, outputTokens]: [number, number | null, number | null] = [0, null, null];
  for (const [us, text] of events) {
    for (const json of dataIn(text)) {
      const [first, other] = looseList(json.choices);
      const choice = looseObject(first) as Json;
      if (other !== undefined || (choice?.index ?? 0) !== 0) return null;
      // The first chunk of a chat says who speaks, and no token.
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

/** Texts of a request, as its record has them: each field under `equals`. */
function promptOf(body: Json): string | number {
  const prompt = body.prompt?.equals;
  if (Array.isArray(prompt) && typeof prompt[0] === "number") return prompt.length;
  return [body.system, body.messages, body.input, body.prompt]
    .map((field) => textsIn(looseObject(field)?.equals))
    .join("");
}

/** Lists and objects within each other beyond this depth hold no text of a prompt. */
const DEPTH_MOST = 64;

function textsIn(value: Json, depth = 0): string {
  if (typeof value === "string") return value;
  if (depth === DEPTH_MOST) return "";
  if (Array.isArray(value)) return value.map((part) => textsIn(part, depth + 1)).join("");
  const fields = looseObject(value);
  return fields === null ? "" : textsIn(fields.content ?? fields.text ?? "", depth + 1);
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");
/** Null: it is not a number of tokens. */
const countIn = (value: unknown): number | null => (isCount(value, 0) ? value : null);
