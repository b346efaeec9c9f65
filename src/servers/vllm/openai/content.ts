/**
 * Reads the values of a request that may be large: messages, tools, variables of the template, lists of token IDs, free
 * arguments. Joins content parts to text like vLLM's renderer, and finds the errors that vLLM finds only then. Source: vLLM
 * 0.33, `renderers/chat_utils/chat_message.py`.
 */

import { atOnce, ITEMS_OF_A_PIECE, mapped, type Pieces } from "../../../base/pieces.ts";
import { badRequest, refuseValue } from "../../openai/request/errors.ts";
import { imageMark } from "../../openai/request/images.ts";
import { idListPieces, idLists, NO_ID_LISTS } from "../../openai/request/lists.ts";
import type { ChatMessage, ChatRequest, Limits } from "../../openai/request/request.ts";
import { RefusedRequest, refuse } from "../../pydantic/refusals.ts";
import { repr } from "../../pydantic/repr.ts";
import { pick, pickPieces } from "../../pydantic/structures.ts";
import { FAIL, type LineError, State, type Type } from "../../pydantic/types.ts";
import { iteratorErrors, validationErrors } from "../../pydantic/validate.ts";
import {
  get,
  type Int,
  isDict,
  isList,
  isSmall,
  iterate,
  type PythonDict,
  PythonFloat,
  type PythonValue,
  toPlain,
  toPlainPieces,
} from "../../pydantic/value.ts";
import { toolDict } from "./field-types.ts";
import type { ChatValues, CompletionValues } from "./fields.ts";
import { HARMONY_SHAPE, SHAPES } from "./message-types.ts";

/** Types of content parts with text for the prompt, and the key of that text. */
const TEXT_KEYS: Readonly<Record<string, string>> = {
  text: "text",
  input_text: "text",
  output_text: "text",
  refusal: "refusal",
  thinking: "thinking",
};
/** Types of content parts with media. */
const MEDIA = new Set(
  "audio_embeds audio_url image_embeds image_pil image_url input_audio input_image prompt_embeds video_embeds video_url".split(
    " ",
  ),
);
/** Keys that make a content part without a type one of media, in vLLM's order. */
const MEDIA_KEYS =
  "image_url image_pil image_embeds audio_embeds video_embeds prompt_embeds audio_url input_audio video_url".split(" ");
const SUPPORTED = [...MEDIA, ...Object.keys(TEXT_KEYS), "tool_reference"].sort().join(", ");

/** Reports whether a message has texts as role and content, and no member that needs a check, like nearly all messages. */
function isPlain(value: PythonValue): boolean {
  if (!isDict(value) || value instanceof Map) return false;
  return (
    typeof value.role === "string" &&
    typeof value.content === "string" &&
    (value.name === undefined || typeof value.name === "string") &&
    value.tool_calls === undefined &&
    value.tool_call_id === undefined &&
    value.reasoning === undefined &&
    value.tools === undefined &&
    value.task === undefined
  );
}

/** The shape of a message, with the types that the renderer checks later. */
export interface MessageShape {
  /** True for the harmony message, which the renderer cannot read. */
  readonly harmony: boolean;
  /** Type of its content parts. Absent if they were checked already. */
  readonly parts?: Type<unknown>;
  /** Type of its tool calls. Absent if they were checked already. */
  readonly calls?: Type<unknown>;
}

const PLAIN: MessageShape = { harmony: false };

/** A message of a chat, vLLM's `ChatCompletionMessageParam`. */
export const message: Type<MessageShape> = {
  name: "message",
  schema: { anyOf: SHAPES.map(({ type }) => type.schema) },
  check(value: PythonValue, state: State) {
    return isPlain(value) ? PLAIN : shapeOf(pick(SHAPES, value, state).index);
  },
  *pieces(value: PythonValue, state: State) {
    return isPlain(value) ? PLAIN : shapeOf((yield* pickPieces(SHAPES, value, state)).index);
  },
};

function shapeOf(index: number): MessageShape | typeof FAIL {
  if (index < 0) return FAIL;
  const { parts, calls } = SHAPES[index]!;
  return { harmony: index === HARMONY_SHAPE, ...(parts && { parts }), ...(calls && { calls }) };
}

/** Checks the tool calls of all messages. Throws `RefusedRequest` for the first that fits no type, without its message's index. */
export function checkToolCalls(shapes: readonly MessageShape[], messages: readonly PythonValue[]): void {
  for (let i = 0; i < shapes.length; i++) {
    const type = shapes[i]?.calls;
    const message = messages[i] as PythonValue;
    const calls = isDict(message) && type !== undefined ? get(message, "tool_calls") : null;
    if (type === undefined || !isList(calls)) continue;
    for (let at = 0; at < calls.length; at++) {
      const errors = errorsOf(type, calls[at] as PythonValue);
      if (errors === null) continue;
      for (const error of errors) error.loc.unshift("body", at);
      refuse(validationErrors(errors));
    }
  }
}

function errorsOf(type: Type<unknown>, value: PythonValue): readonly LineError[] | null {
  const state = new State(true);
  return type.check(value, state) === FAIL ? state.errors : null;
}

type MessageInput = readonly [shapes: readonly MessageShape[], messages: readonly PythonValue[], limits: Limits];

/** Reads the conversation for the template. Throws `RefusedRequest`. Not a generator, which would slow short chats by 2.5 %. */
export function readMessages(...[shapes, messages, limits]: MessageInput): ChatMessage[] {
  const conversation: ChatMessage[] = [];
  for (let i = 0; i < messages.length; i++)
    conversation.push(readMessage(shapes[i] as MessageShape, messages[i]!, limits));
  for (let i = 0; i < conversation.length; i++) checkMessage(conversation[i]!);
  return notEmpty(conversation);
}

/** Like `readMessages`, in pieces, for up to hundreds of thousands of messages. */
export function* messagePieces(...[shapes, messages, limits]: MessageInput): Pieces<ChatMessage[]> {
  const conversation = yield* mapped(messages, (message, i) => readMessage(shapes[i] as MessageShape, message, limits));
  for (const [at, message] of conversation.entries()) {
    checkMessage(message);
    if ((at + 1) % ITEMS_OF_A_PIECE === 0) yield;
  }
  return notEmpty(conversation);
}

function checkMessage({ role, toolCalls }: ChatMessage): void {
  if (role === "assistant" && toolCalls !== null) checkCallTypes(toolCalls);
}

function notEmpty(conversation: ChatMessage[]): ChatMessage[] {
  if (conversation.length === 0)
    refuse(badRequest("Cannot apply chat template to an empty conversation. Provide at least one message."));
  return conversation;
}

function readMessage(shape: MessageShape, message: PythonValue, limits: Limits): ChatMessage {
  if (shape.harmony || !isDict(message)) refuse(badRequest("'Message' object is not subscriptable"));
  const name = get(message, "name");
  const calls = get(message, "tool_calls");
  const id = get(message, "tool_call_id");
  const content = readContent(shape, get(message, "content") ?? null, limits);
  if (shape.calls !== undefined && isList(calls)) checkEach(shape.calls, calls);
  return {
    role: get(message, "role") as string,
    content,
    name: typeof name === "string" ? name : null,
    toolCalls: isList(calls) ? calls.map(toPlain) : null,
    toolCallId: typeof id === "string" ? id : null,
  };
}

/** Checks the items of a list like vLLM's renderer. Only `/tokenize` needs it: elsewhere `checkToolCalls` has checked them. */
function checkEach(type: Type<unknown>, items: readonly PythonValue[]): void {
  for (const [i, item] of items.entries()) {
    const errors = errorsOf(type, item);
    if (errors !== null) refuse(badRequest(iteratorErrors(errors, i)));
  }
}

function checkCallTypes(calls: readonly unknown[]): void {
  for (const call of calls as Record<string, unknown>[])
    if ((call.type ?? "function") !== "function" || typeof call.function !== "object" || call.function === null)
      refuseValue("chat completions only support assistant tool_calls of type 'function'.", "tool_calls");
}

function readContent(shape: MessageShape, content: PythonValue, limits: Limits): string | null {
  if (content === null || typeof content === "string") return content;
  const texts: string[] = [];
  let images = "";
  let i = -1;
  for (const part of iterate(content) ?? []) {
    i++;
    const errors = shape.parts === undefined ? null : errorsOf(shape.parts, part);
    if (errors !== null) refuse(badRequest(iteratorErrors(errors, i)));
    const image = limits.takesImages === true && isDict(part) ? imageOf(part) : null;
    if (image !== null) {
      images += imageMark(image);
      continue;
    }
    const text = typeof part === "string" ? part : readPart(part as PythonDict, limits);
    if (text !== "") texts.push(text);
  }
  return images + texts.join("\n");
}

/** Returns the URL, UUID or file ID of an image part, "" if it has none, or null if the part is no image. */
function imageOf(part: PythonDict): string | null {
  const type = get(part, "type");
  if (type !== "image_url" && type !== "input_image") return null;
  const image = get(part, "image_url") ?? null;
  const url = isDict(image) ? get(image, "url") : image;
  return typeof url === "string" ? url : String(get(part, "uuid") ?? get(part, "file_id") ?? "");
}

function readPart(part: PythonDict, limits: Limits): string {
  const type = get(part, "type") ?? null;
  const uuid = get(part, "uuid") ?? null;
  if (type === null || uuid !== null) {
    if (MEDIA_KEYS.some((key) => get(part, key) !== undefined)) throw notMultimodal(limits);
    refuseValue("Missing 'type' field in multimodal part.", "type");
  }
  if (typeof type !== "string") refuseValue("Invalid 'type' field in multimodal part.", "type");
  const key = type === "tool_reference" ? "name" : TEXT_KEYS[type];
  if (key !== undefined) {
    const text = get(part, key);
    return typeof text === "string" ? text : "";
  }
  if (MEDIA.has(type)) throw notMultimodal(limits);
  const message = `Unsupported chat content part type: ${repr(type)}. Supported types: ${SUPPORTED}.`;
  refuseValue(message, "type", type);
}

function notMultimodal(limits: Limits): RefusedRequest {
  return new RefusedRequest(badRequest(`${limits.servedModelNames[0]} is not a multimodal model`));
}

/** The large values of a chat, except its messages. */
export interface ChatParts {
  readonly tools: ChatRequest["tools"];
  /** Variables of the chat template. Null if the request sets none. */
  readonly names: ChatRequest["templateNames"];
  readonly long: LongParts;
}

/** The large values that chats and completions share. */
export interface LongParts {
  readonly lists: ReturnType<typeof idLists>;
  /** True if a free argument has an int beyond 64 bits, which MessagePack cannot encode. */
  readonly extraArgsTooLarge: boolean;
}

/** Reads the large values of a chat, except its messages, in one go. */
export function chatParts(values: ChatValues, limits: Limits, exact: boolean): ChatParts {
  const tools = values.tools?.map(toolDict) ?? null;
  const names = namesAnything(values) ? atOnce(templateNames(values)) : null;
  return { tools, names, long: longParts(values, limits, exact) };
}

export function longParts(values: ChatValues | CompletionValues, limits: Limits, exact: boolean): LongParts {
  return {
    lists: namesIds(values) ? idLists(listsOf(values), limits.vocabularySize) : NO_ID_LISTS,
    extraArgsTooLarge:
      holdsHuge(values.vllm_xargs, exact) ||
      holdsHuge(values.kv_transfer_params, exact) ||
      holdsHuge(values.ec_transfer_params, exact),
  };
}

const namesIds = (values: ChatValues | CompletionValues) =>
  values.logit_bias !== null ||
  values.stop_token_ids !== null ||
  values.allowed_token_ids !== null ||
  values.logprob_token_ids !== null;

function listsOf(values: ChatValues | CompletionValues) {
  // With beam search vLLM ignores `logit_bias`, which its BeamSearchParams lacks.
  const bias = values.use_beam_search ? null : values.logit_bias;
  const { stop_token_ids: stop, allowed_token_ids: allowed, logprob_token_ids: logprobs } = values;
  return { bias, stop, allowed, logprobs };
}

/** Like `chatParts`, in pieces. */
export function* chatPartPieces(values: ChatValues, limits: Limits, exact: boolean): Pieces<ChatParts> {
  const tools = values.tools && (yield* mapped(values.tools, toolDict));
  const names = yield* templateNames(values);
  const lists = yield* idListPieces(listsOf(values), limits.vocabularySize);
  const extra = [values.vllm_xargs, values.kv_transfer_params, values.ec_transfer_params];
  return { tools, names, long: { lists, extraArgsTooLarge: yield* anyHolds(extra, exact) } };
}

const namesAnything = ({ chat_template_kwargs, documents, reasoning_effort }: ChatValues) =>
  chat_template_kwargs !== null || documents !== null || reasoning_effort !== null;

/** Returns the variables of the template like vLLM's `build_chat_params`, or null. An effort also sets `enable_thinking`. */
function* templateNames(values: ChatValues): Pieces<Record<string, unknown> | null> {
  const { chat_template_kwargs: own, documents, reasoning_effort: effort } = values;
  if (!namesAnything(values)) return null;
  const names = own === null ? {} : ((yield* toPlainPieces(own)) as Record<string, unknown>);
  const others = {
    ...(effort === null ? {} : { enable_thinking: effort !== "none", reasoning_effort: effort }),
    ...(documents === null ? {} : { documents: yield* mapped(documents, (document) => Object.fromEntries(document)) }),
  };
  // Variables that the request names take precedence. They are not copied, because there may be a hundred thousand.
  for (const [name, value] of Object.entries(others)) if (!Object.hasOwn(names, name)) names[name] = value;
  return names;
}

/** Reports whether an int has more than 64 bits, which MessagePack cannot encode. */
export const isHuge = (value: Int | null, exact: boolean) => typeof value === "bigint" && hasHugeInt(value, exact);
const holdsHuge = (args: unknown, exact: boolean) => args !== null && hasHugeInt(args as PythonValue, exact);

/** Reports whether any argument has an int of more than 64 bits, in pieces. */
function* anyHolds(list: readonly unknown[], exact: boolean): Pieces<boolean> {
  for (const args of list) if (args !== null && (yield* hugePieces(args as PythonValue, exact))) return true;
  return false;
}

function* hugePieces(value: PythonValue, exact: boolean): Pieces<boolean> {
  if (isSmall(value) || (!isList(value) && !isDict(value))) return hasHugeInt(value, exact);
  let seen = 0;
  for (const item of isList(value) ? value : value instanceof Map ? value.values() : Object.values(value)) {
    if (isSmall(item) ? hasHugeInt(item, exact) : yield* hugePieces(item, exact)) return true;
    if (++seen % ITEMS_OF_A_PIECE === 0) yield;
  }
  return false;
}

/** Thrown to leave the fast path if only the exact parser can tell an int from a float. */
class Ambiguous {}

/** Reports whether a value has an int of more than 64 bits, at any depth. Throws `Ambiguous` on the fast path. */
function hasHugeInt(value: PythonValue, exact: boolean): boolean {
  if (typeof value === "bigint") return value < -(2n ** 63n) || value >= 2n ** 64n;
  if (typeof value === "number") {
    // From the exact parser such a number is a float. From the fast one it may have been an int.
    if (!exact && Number.isInteger(value) && !Number.isSafeInteger(value)) throw new Ambiguous();
    return false;
  }
  if (isList(value)) return value.some((item) => hasHugeInt(item, exact));
  if (value instanceof PythonFloat || !isDict(value)) return false;
  return (value instanceof Map ? [...value.values()] : Object.values(value)).some((item) => hasHugeInt(item, exact));
}
