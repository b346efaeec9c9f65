/**
 * What does a message say? Content parts to text, as vLLM's renderer joins them, with the errors that it finds only then
 * (vLLM 0.33, `renderers/chat_utils/chat_message.py`). Throws `Refused`.
 */

import { atOnce, ITEMS_OF_A_PIECE, mapped, type Pieces } from "../../../base/pieces.ts";
import { badRequest, validationRefusal } from "../../openai/request/errors.ts";
import { imageMark } from "../../openai/request/images.ts";
import type { ChatMessage, Limits } from "../../openai/request/request.ts";
import { Refused } from "../../pydantic/refusals.ts";
import { repr } from "../../pydantic/repr.ts";
import { FAIL, type LineError, State, type Type } from "../../pydantic/types.ts";
import { iteratorErrors, validationErrors } from "../../pydantic/validate.ts";
import { get, isDict, isList, iterate, type PythonDict, type PythonValue, toPlain } from "../../pydantic/value.ts";
import type { MessageShape } from "./message-types.ts";

/** Part types whose text goes into the prompt, and the key that holds it. */
const TEXT_KEYS: Readonly<Record<string, string>> = {
  text: "text",
  input_text: "text",
  output_text: "text",
  refusal: "refusal",
  thinking: "thinking",
};
/** Part types of media. */
const MEDIA = new Set(
  "audio_embeds audio_url image_embeds image_pil image_url input_audio input_image prompt_embeds video_embeds video_url".split(
    " ",
  ),
);
/** Keys that tell the type of a part without one, in vLLM's order. */
const MEDIA_KEYS =
  "image_url image_pil image_embeds audio_embeds video_embeds prompt_embeds audio_url input_audio video_url".split(" ");
const SUPPORTED = [...MEDIA, ...Object.keys(TEXT_KEYS), "tool_reference"].sort().join(", ");

/** Tool calls of the history are walked once, right after the fields: the first that fits nothing is reported without its place. */
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
      throw new Refused(validationErrors(errors));
    }
  }
}

function errorsOf(type: Type<unknown>, value: PythonValue): readonly LineError[] | null {
  const state = new State(true);
  return type.check(value, state) === FAIL ? state.errors : null;
}

type Given = readonly [shapes: readonly MessageShape[], messages: readonly PythonValue[], limits: Limits];

/** Reads the conversation for the template. Throws `Refused`. */
export const readMessages = (...given: Given): ChatMessage[] => atOnce(messagePieces(...given));

/** As `readMessages`, for messages of which there may be hundreds of thousands. */
export function* messagePieces(...[shapes, messages, limits]: Given): Pieces<ChatMessage[]> {
  const conversation = yield* mapped(messages, (message, i) => readMessage(shapes[i] as MessageShape, message, limits));
  for (const [at, { role, toolCalls }] of conversation.entries()) {
    if (role === "assistant" && toolCalls !== null) checkCallTypes(toolCalls);
    if ((at + 1) % ITEMS_OF_A_PIECE === 0) yield;
  }
  if (conversation.length === 0)
    throw new Refused(badRequest("Cannot apply chat template to an empty conversation. Provide at least one message."));
  return conversation;
}

function readMessage(shape: MessageShape, message: PythonValue, limits: Limits): ChatMessage {
  if (shape.harmony || !isDict(message)) throw new Refused(badRequest("'Message' object is not subscriptable"));
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

/** Items of a list that pydantic only walks: where `checkToolCalls` has not looked (`/tokenize`), the renderer finds what is wrong. */
function checkEach(type: Type<unknown>, items: readonly PythonValue[]): void {
  for (const [i, item] of items.entries()) {
    const errors = errorsOf(type, item);
    if (errors !== null) throw new Refused(badRequest(iteratorErrors(errors, i)));
  }
}

function checkCallTypes(calls: readonly unknown[]): void {
  for (const call of calls as Record<string, unknown>[])
    if ((call.type ?? "function") !== "function" || typeof call.function !== "object" || call.function === null)
      throw validationRefusal("chat completions only support assistant tool_calls of type 'function'.", "tool_calls");
}

function readContent(shape: MessageShape, content: PythonValue, limits: Limits): string | null {
  if (content === null || typeof content === "string") return content;
  const texts: string[] = [];
  let images = "";
  let i = -1;
  for (const part of iterate(content) ?? []) {
    i++;
    const errors = shape.parts === undefined ? null : errorsOf(shape.parts, part);
    if (errors !== null) throw new Refused(badRequest(iteratorErrors(errors, i)));
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

/** What names an image; null: the part is none. */
function imageOf(part: PythonDict): string | null {
  const type = get(part, "type");
  if (type !== "image_url" && type !== "input_image") return null;
  const given = get(part, "image_url") ?? null;
  const url = isDict(given) ? get(given, "url") : given;
  return typeof url === "string" ? url : String(get(part, "uuid") ?? get(part, "file_id") ?? "");
}

function readPart(part: PythonDict, limits: Limits): string {
  const type = get(part, "type") ?? null;
  const uuid = get(part, "uuid") ?? null;
  if (type === null || uuid !== null) {
    if (MEDIA_KEYS.some((key) => get(part, key) !== undefined)) throw notMultimodal(limits);
    throw validationRefusal("Missing 'type' field in multimodal part.", "type");
  }
  if (typeof type !== "string") throw validationRefusal("Invalid 'type' field in multimodal part.", "type");
  const key = type === "tool_reference" ? "name" : TEXT_KEYS[type];
  if (key !== undefined) {
    const text = get(part, key);
    return typeof text === "string" ? text : "";
  }
  if (MEDIA.has(type)) throw notMultimodal(limits);
  const message = `Unsupported chat content part type: ${repr(type)}. Supported types: ${SUPPORTED}.`;
  throw validationRefusal(message, "type", type);
}

function notMultimodal(limits: Limits): Refused {
  return new Refused(badRequest(`${limits.servedModelNames[0]} is not a multimodal model`));
}
