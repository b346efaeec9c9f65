/**
 * The script of the reading thread, which reads large bodies so that they do not delay streams. Receives each body in parts and
 * answers with one message. Its caller is `servers/openai/front/reading/thread.ts`.
 */
import { heapSize } from "bun:jsc";
import { lowerPriority } from "../../base/time/low-priority.ts";
import { type RenderChat, renderChat } from "../../text/tokens/chat-template.ts";
import { checkModel } from "../openai/front/models.ts";
import type {
  FromThread,
  RequestKind,
  ThreadAnswer,
  ThreadOrder,
  ThreadStart,
  ToThread,
} from "../openai/front/reading/messages.ts";
import type { ReadingHost } from "../openai/pipeline/dialect.ts";
import { leanAnswer } from "../openai/pipeline/lean.ts";
import { templateHabits } from "../openai/pipeline/template-habits.ts";
import { badRequest } from "../openai/request/errors.ts";
import type { GenerationRequest, Limits } from "../openai/request/request.ts";
import { type BodyText, readBody, wholeText } from "../pydantic/read-body.ts";
import type { ErrorAnswer } from "../pydantic/refusals.ts";
import { valuesIn } from "../pydantic/values-in.ts";
import { anthropicError } from "./messages/errors.ts";
import { messagesKind } from "./messages/read.ts";
import { readBatch, readInvocation } from "./openai/batch.ts";
import { chatValuePieces, readChat, readCompletion } from "./openai/read.ts";
import { readPrompt } from "./openai/tokenize-body.ts";
import { readTokens } from "./openai/tokens.ts";
import { responseKind } from "./responses/read.ts";
import { Store } from "./responses/store.ts";

declare const self: Worker;

/** A body that has not arrived completely. */
interface IncomingBody {
  readonly order: ThreadOrder;
  readonly parts: Uint8Array<ArrayBuffer>[];
}

/** The request of a body, or the error that refuses it. `repeated`: the fields that the answer repeats. */
type ReadResult =
  | { readonly request: GenerationRequest; readonly repeated?: unknown }
  | { readonly error: ErrorAnswer };

const READERS: Readonly<
  Record<RequestKind, (text: BodyText, contentType: string | null, limits: Limits) => ReadResult>
> = {
  chat: readChat,
  completion: readCompletion,
  batch: readBatch,
  invocation: readInvocation,
  response(text, contentType, limits) {
    // No response is stored, because a server that stores responses reads their bodies on the main thread.
    const read = readBody(responseKind(hostOf(limits), new Store(0)), text, contentType, limits);
    return "error" in read ? read : { request: read.request.request, repeated: read.request.repeated };
  },
  message: (text, contentType, limits) => readBody(messagesKind(hostOf(limits)), text, contentType, limits),
};
/** Converts errors of prompts to the form of their API. Errors of readers already have it. */
const ERROR_FORMS: Partial<Record<RequestKind, (error: ErrorAnswer) => ErrorAnswer>> = { message: anthropicError };

/** Bytes of bodies after which garbage is collected even if others wait, because parsed bodies take many times their bytes. */
const COLLECT_BYTES = 4 * 2 ** 20;

const incoming = new Map<number, IncomingBody>();
let uncollectedBytes = 0;
let start: ThreadStart;
let render: RenderChat = renderChat;
let habits = templateHabits(renderChat, false);
lowerPriority();

self.onmessage = ({ data }: MessageEvent<ToThread>) => {
  if ("template" in data) start = data;
  else if ("kind" in data) incoming.set(data.id, { order: data, parts: [] });
  // If an earlier thread received the start of this body, `answer` reports a failure.
  else if ("part" in data) incoming.get(data.id)?.parts.push(data.part);
  else if (!data.ended) incoming.delete(data.id);
  else void answer(data.id);
};

async function answer(id: number): Promise<void> {
  try {
    await ready();
    readAndSend(id);
  } catch (error) {
    self.postMessage({ id, failed: String(error) } satisfies FromThread);
  }
  // Afterwards nothing on the stack refers to the parsed body, so that it can be collected.
  await null;
  if (incoming.size > 0 && uncollectedBytes < COLLECT_BYTES) return;
  uncollectedBytes = 0;
  Bun.gc(true);
  self.postMessage({ keptBytes: heapSize() } satisfies FromThread);
}

function readAndSend(id: number): void {
  const { order, parts } = incoming.get(id)!;
  incoming.delete(id);
  const bytes = joined(parts);
  uncollectedBytes += bytes.length;
  const text = wholeText(bytes);
  bytes.buffer.transfer(0);
  const result = answerTo(order, text);
  if ("error" in result && result.error.body.length > LONG_ERROR) postLong(id, result.error);
  else self.postMessage({ id, ...result } satisfies FromThread, transferable(result));
}

/** UTF-16 units above which an error is sent as bytes, because the main thread would copy the text in one go. */
const LONG_ERROR = 65_536;

function postLong(id: number, { body, ...long }: ErrorAnswer): void {
  const bytes = new TextEncoder().encode(body);
  self.postMessage({ id, long, bytes } satisfies FromThread, [bytes.buffer]);
}

/** Returns the buffers of an answer that are moved to the main thread without a copy. */
function transferable(answer: ThreadAnswer): ArrayBuffer[] {
  if ("tokens" in answer) return [answer.tokens.buffer];
  if ("prompt" in answer) return [answer.prompt.parts.lengths.buffer as ArrayBuffer];
  if (!("read" in answer)) return [];
  const { request, prompts } = answer.read;
  const sequences = request.order && "script" in request.order ? (request.order.script?.sequences ?? []) : [];
  const lists = [
    ...prompts.map((prompt) => ("text" in prompt ? prompt.lengths : prompt)),
    ...sequences.map(({ ids }) => ids),
  ];
  return [...new Set(lists.map(({ buffer }) => buffer as ArrayBuffer))];
}

/** Joins the parts of a body, and frees each at once instead of at the next collection of garbage. */
function joined(parts: readonly Uint8Array<ArrayBuffer>[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
    part.buffer.transfer(0);
  }
  return bytes;
}

/** Loads the renderer of the model's chat template, if the model has one. */
async function ready(): Promise<void> {
  if (start.template === null || render !== renderChat) return;
  const { modelTemplate } = await import("../../text/tokens/model-template.ts");
  render = modelTemplate(start.template);
  habits = templateHabits(render, true);
}

/** Reads a body as its order says, and renders its prompts. */
function answerTo({ kind, contentType, limits }: ThreadOrder, text: BodyText): ThreadAnswer {
  const values = valuesIn(text.python ?? "");
  if (values !== null) return { error: badRequest(`understudy: ${values}`) };
  if (kind === "text") return { text };
  if (kind === "tokens") return readTokens(text, contentType, limits);
  if (kind === "prompt") return readPrompt(text, contentType, render, limits);
  const read = READERS[kind](text, contentType, limits);
  if ("error" in read) return read;
  const answer = leanAnswer(read.request, start, render, limits);
  if ("error" in answer) return { error: ERROR_FORMS[kind]?.(answer.error) ?? answer.error };
  return "read" in answer ? { read: { ...answer.read, repeated: read.repeated } } : answer;
}

/** Returns the functions that the readers of the other APIs need. */
function hostOf(limits: Limits): ReadingHost {
  return {
    ...habits,
    chat: (body, exact, changes) => chatValuePieces(body, limits, exact, changes),
    checkModel: (model) => checkModel(model, limits),
  };
}
