/**
 * Reads bodies of `/tokenize` and renders their prompts. The reading thread does so with large ones, because a chat of 300,000
 * messages takes hundreds of megabytes until it is rendered.
 */
import { atOnce, mapped, type Pieces } from "../../../base/pieces.ts";
import type { RenderChat } from "../../../text/tokens/chat-template.ts";
import { packed } from "../../../text/tokens/packed-parts.ts";
import { type CheckedFields, checkModelOf } from "../../openai/front/checked.ts";
import type { PromptToEncode, ThreadAnswer } from "../../openai/front/reading/messages.ts";
import { incompatible } from "../../openai/request/prompts.ts";
import type { Limits } from "../../openai/request/request.ts";
import type { BodyText } from "../../pydantic/read-body.ts";
import { refuse } from "../../pydantic/refusals.ts";
import { optional, record, required, union } from "../../pydantic/structures.ts";
import { bool, dict, list, nullable, object, type Type, text } from "../../pydantic/types.ts";
import { get, type PythonDict, type PythonValue, toPlain } from "../../pydantic/value.ts";
import { type MessageShape, message, messagePieces } from "./content.ts";
import { tool, toolDict } from "./field-types.ts";
import { answerFrom } from "./tokens.ts";
import { checkMultimodal, checkTemplate } from "./translate.ts";

/** Type of the body of `/tokenize`. Errors are reported in the order of the fields. */
export const tokenizeBody: Type<CheckedFields> = union(
  record("TokenizeCompletionRequest", {
    model: optional(nullable(text)),
    prompt: required(text),
    add_special_tokens: optional(bool),
    return_token_strs: optional(nullable(bool)),
  }),
  record("TokenizeChatRequest", {
    model: optional(nullable(text)),
    messages: required(list(message)),
    add_generation_prompt: optional(bool),
    return_token_strs: optional(nullable(bool)),
    continue_final_message: optional(bool),
    add_special_tokens: optional(bool),
    chat_template: optional(nullable(text)),
    chat_template_kwargs: optional(nullable(object)),
    media_io_kwargs: optional(nullable(dict(object))),
    mm_processor_kwargs: optional(nullable(object)),
    tools: optional(nullable(list(tool))),
  }),
);

/** Fields in which Python distinguishes 1 from 1.0, or that exclude each other. */
const EXACT_KEYS = ["tools", "chat_template_kwargs", "continue_final_message"];

/** Reads a body and renders its prompt with `renderChat`. Returns the packed prompt, or vLLM's error. */
export const readPrompt = (
  body: BodyText,
  contentType: string | null,
  renderChat: RenderChat,
  limits: Limits,
): ThreadAnswer =>
  answerFrom(tokenizeBody, EXACT_KEYS, body, contentType, ({ checked, value }) => {
    checkModelOf(checked, limits);
    const prompt = atOnce(promptToEncode(checked, value, renderChat, limits));
    return { prompt: { ...prompt, parts: packed(prompt.parts) } };
  });

/** Renders the prompt of a body with `renderChat`. Throws `RefusedRequest`. */
export function* promptToEncode(
  checked: CheckedFields,
  body: PythonDict,
  renderChat: RenderChat,
  limits: Limits,
): Pieces<PromptToEncode> {
  const prompt = checked.get("prompt");
  const special = checked.get("add_special_tokens") as boolean | undefined;
  const withTexts = checked.get("return_token_strs") === true;
  if (prompt !== undefined) {
    checkMultimodal(get(body, "mm_processor_kwargs"), get(body, "media_io_kwargs"));
    return { parts: [prompt as string], allowSpecial: true, addSpecial: special ?? true, withTexts };
  }
  const orNull = <V>(name: string) => (checked.get(name) ?? null) as V | null;
  checkTemplate({
    chat_template: orNull("chat_template"),
    chat_template_kwargs: orNull("chat_template_kwargs"),
    media_io_kwargs: orNull("media_io_kwargs"),
    mm_processor_kwargs: orNull("mm_processor_kwargs"),
  });
  const shapes = checked.get("messages") as MessageShape[];
  const messages = yield* messagePieces(shapes, get(body, "messages") as PythonValue[], limits);
  const tools = orNull<PythonDict[]>("tools");
  yield;
  const toolDicts = tools && (yield* mapped(tools, toolDict));
  yield;
  const generation = checked.get("add_generation_prompt") !== false;
  const open = checked.get("continue_final_message") === true;
  if (generation && open) refuse(incompatible);
  const names = orNull<PythonDict>("chat_template_kwargs");
  const plainNames = names === null ? undefined : (toPlain(names) as Record<string, unknown>);
  const input = [messages, generation, open, toolDicts, plainNames] as const;
  const parts = renderChat.pieces === undefined ? renderChat(...input) : yield* renderChat.pieces(...input);
  return { parts, allowSpecial: false, addSpecial: special ?? false, withTexts };
}
