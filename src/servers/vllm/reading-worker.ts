/** The reading thread: bodies come part by part, and each gets one answer (`servers/openai/front/reading/thread.ts`). */
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
import type { ChatRequest, CompletionRequest, Limits } from "../openai/request/request.ts";
import { type BodyText, readBody, wholeText } from "../pydantic/read-body.ts";
import type { ErrorAnswer } from "../pydantic/refusals.ts";
import { valuesIn } from "../pydantic/values-in.ts";
import { inForm } from "./messages/errors.ts";
import { messagesKind } from "./messages/read.ts";
import { readBatch, readInvocation } from "./openai/batch.ts";
import { chatValuePieces, readChat, readCompletion } from "./openai/read.ts";
import { readTokens } from "./openai/tokens.ts";
import { responseKind } from "./responses/read.ts";
import { Store } from "./responses/store.ts";

declare const self: Worker;

interface Coming {
  readonly order: ThreadOrder;
  readonly parts: Uint8Array<ArrayBuffer>[];
}

type Read =
  | { readonly request: ChatRequest | CompletionRequest; readonly repeated?: unknown }
  | { readonly error: ErrorAnswer };

const READERS: Readonly<Record<RequestKind, (text: BodyText, contentType: string | null, limits: Limits) => Read>> = {
  chat: readChat,
  completion: readCompletion,
  batch: readBatch,
  invocation: readInvocation,
  response(text, contentType, limits) {
    // Where responses are kept, the loop reads all of them.
    const read = readBody(responseKind(hostOf(limits), new Store(0)), text, contentType, limits);
    return "error" in read ? read : { request: read.request.request, repeated: read.request.repeated };
  },
  message: (text, contentType, limits) => readBody(messagesKind(hostOf(limits)), text, contentType, limits),
};
/** What is found wrong with a prompt has the dialect's form; what a reader finds has it already where it should. */
const SHOWN: Partial<Record<RequestKind, (error: ErrorAnswer) => ErrorAnswer>> = { message: inForm };

/** After so many bytes of bodies the heap is collected although others wait: what a body becomes takes many times its bytes. */
const COLLECT_BYTES = 4 * 2 ** 20;

const coming = new Map<number, Coming>();
let uncollectedBytes = 0;
let start: ThreadStart;
let render: RenderChat = renderChat;
let habits = templateHabits(renderChat, false);
lowerPriority();

self.onmessage = ({ data }: MessageEvent<ToThread>) => {
  if ("template" in data) start = data;
  else if ("kind" in data) coming.set(data.id, { order: data, parts: [] });
  // A body that a thread before this one began to read: `answer` says that it failed.
  else if ("part" in data) coming.get(data.id)?.parts.push(data.part);
  else if (!data.ended) coming.delete(data.id);
  else void answer(data.id);
};

async function answer(id: number): Promise<void> {
  try {
    await ready();
    say(id);
  } catch (error) {
    self.postMessage({ id, failed: String(error) } satisfies FromThread);
  }
  // What was made of a body is on no stack by now.
  await null;
  if (coming.size > 0 && uncollectedBytes < COLLECT_BYTES) return;
  uncollectedBytes = 0;
  Bun.gc(true);
  self.postMessage({ keptBytes: heapSize() } satisfies FromThread);
}

function say(id: number): void {
  const { order, parts } = coming.get(id)!;
  coming.delete(id);
  const bytes = joined(parts);
  uncollectedBytes += bytes.length;
  const text = wholeText(bytes);
  bytes.buffer.transfer(0);
  const said = answerTo(order, text);
  if ("error" in said && said.error.body.length > LONG_ERROR) postLong(id, said.error);
  else self.postMessage({ id, ...said } satisfies FromThread, movable(said));
}

/** Characters of an error that the loop gets as a text: it would copy more in one go. */
const LONG_ERROR = 65_536;

function postLong(id: number, { body, ...long }: ErrorAnswer): void {
  const bytes = new TextEncoder().encode(body);
  self.postMessage({ id, long, bytes } satisfies FromThread, [bytes.buffer]);
}

/** What the loop gets without a copy. */
function movable(answer: ThreadAnswer): ArrayBuffer[] {
  if ("tokens" in answer) return [answer.tokens.buffer];
  if (!("read" in answer)) return [];
  const { request, prompts } = answer.read;
  const sequences = request.order && "script" in request.order ? (request.order.script?.sequences ?? []) : [];
  const lists = [...prompts.map((one) => ("text" in one ? one.lengths : one)), ...sequences.map(({ ids }) => ids)];
  return [...new Set(lists.map(({ buffer }) => buffer as ArrayBuffer))];
}

/** One after the other. What was memory is free at once: the host would let it gather until it collects. */
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

/** What renders by a model's template is loaded where there is one. */
async function ready(): Promise<void> {
  if (start.template === null || render !== renderChat) return;
  const { modelTemplate } = await import("../../text/tokens/model-template.ts");
  render = modelTemplate(start.template);
  habits = templateHabits(render, true);
}

function answerTo({ kind, contentType, limits }: ThreadOrder, text: BodyText): ThreadAnswer {
  const values = valuesIn(text.python ?? "");
  if (values !== null) return { error: badRequest(`understudy: ${values}`) };
  if (kind === "text") return { text };
  if (kind === "tokens") return readTokens(text, contentType, limits);
  const read = READERS[kind](text, contentType, limits);
  if ("error" in read) return read;
  const answer = leanAnswer(read.request, start, render, limits);
  if ("error" in answer) return { error: SHOWN[kind]?.(answer.error) ?? answer.error };
  return "read" in answer ? { read: { ...answer.read, repeated: read.repeated } } : answer;
}

/** What other dialects find here. */
function hostOf(limits: Limits): ReadingHost {
  return {
    ...habits,
    chat: (body, exact, changes) => chatValuePieces(body, limits, exact, changes),
    checkModel: (model) => checkModel(model, limits),
  };
}
