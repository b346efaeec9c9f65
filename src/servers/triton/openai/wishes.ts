/** Checks requests that fit the schema, and derives the request to the model. Source: `triton_engine.py` (2026). */

import type { RenderChat } from "../../../text/tokens/chat-template.ts";
import type { PromptPart, Vocabulary } from "../../../text/tokens/types.ts";
import { toPlain } from "../../pydantic/value.ts";
import type { TritonOpenAiConfig } from "../config/triton-config.ts";
import type { OpenAiBody } from "./fields.ts";
import type { QueryInputs } from "./inputs.ts";
import type { NamedModel, OpenAiModel } from "./models.ts";

/** A refusal with status 400. The message is the answer's `detail`. */
export class ClientError extends Error {}

export interface FrontSettings extends Pick<TritonOpenAiConfig, "defaultMaxTokens" | "toolCallParser"> {
  readonly renderChat: RenderChat;
  readonly vocabulary: Vocabulary;
}

export interface ModelQuery {
  readonly model: OpenAiModel;
  readonly wish: QueryInputs;
  /** Name of the function that the answer calls, or null for a text answer. */
  readonly calls: string | null;
}

interface ToolChoice {
  readonly function: { readonly name: string };
}
interface Tool {
  readonly function: { readonly name: string; readonly parameters?: object | null };
}

/** Checks a chat. Throws `ClientError`. */
export function chatAsked(body: OpenAiBody, named: NamedModel, settings: FrontSettings): ModelQuery {
  const model = namedModel(body, named);
  checkChoices(body);
  if (body.logit_bias !== null) throw new ClientError("logit bias is not currently supported");
  const asksLogprobs = body.logprobs === true || Boolean(body.top_logprobs);
  if (model.backend !== "vllm" && asksLogprobs)
    throw new ClientError("logprobs are currently available only for the vLLM backend");
  if (body.top_logprobs && body.logprobs !== true)
    throw new ClientError("`top_logprobs` can only be used when `logprobs` is True");
  const tools = toPlain((body.tools ?? null) as null) as Tool[] | null;
  const choice = toPlain((body.tool_choice ?? null) as null) as string | ToolChoice | null;
  checkTools(tools ?? [], choice, settings);
  checkStreamOptions(body);
  const calls =
    typeof choice === "object" && choice !== null
      ? choice.function.name
      : choice === "required"
        ? tools![0]!.function.name
        : null;
  const messages = toPlain(body.messages as never) as Message[];
  const parts = settings.renderChat(messages.map(templated), true, false, tools);
  const prompt = parts.map((one) => spelled(one, settings.vocabulary)).join("");
  const maxTokens = Number(body.max_completion_tokens ?? body.max_tokens ?? settings.defaultMaxTokens);
  const logprobs = body.logprobs === true ? Number(body.top_logprobs ?? 0) : null;
  const { adapter } = named;
  return { model, wish: { prompt, body, adapter, maxTokens, logprobs, schema: schemaOf(calls, tools) }, calls };
}

/** Checks a completion. Throws `ClientError`. */
export function completionAsked(body: OpenAiBody, named: NamedModel, settings: FrontSettings): ModelQuery {
  const model = namedModel(body, named);
  const { prompt } = body;
  if (body.suffix !== null) throw new ClientError("suffix is not currently supported");
  if (prompt === "" || (Array.isArray(prompt) && prompt.length === 0))
    throw new ClientError("prompt must be non-empty");
  if (typeof prompt !== "string") throw new ClientError("only single string input is supported");
  checkChoices(body);
  const { best_of: best } = body;
  if (Number(best ?? 0) > 1)
    throw new ClientError(`Received best_of=${best}, but only single choice (best_of=1) is currently supported`);
  if (body.logit_bias !== null) throw new ClientError("logit bias is not supported");
  const candidates = Number(body.logprobs ?? 0);
  if (candidates > 0 && model.backend !== "vllm")
    throw new ClientError("logprobs are currently available only for the vLLM backend");
  checkStreamOptions(body);
  const maxTokens = Number(body.max_tokens ?? settings.defaultMaxTokens);
  const { adapter } = named;
  const logprobs = candidates > 0 ? candidates : null;
  return { model, wish: { prompt, body, adapter, maxTokens, logprobs, schema: null }, calls: null };
}

/** Returns the named model. Throws `ClientError` if the model or the adapter does not exist. */
export function namedModel(body: OpenAiBody, { model, adapter }: NamedModel): OpenAiModel {
  if (model === null) throw new ClientError(`Unknown model: ${body.model}`);
  if (adapter !== null && model.adapters !== null && !model.adapters.includes(adapter))
    throw new ClientError(`Unknown LoRA: ${adapter}; for model: ${body.model}`);
  return model;
}

function checkChoices({ n }: OpenAiBody): void {
  if (Number(n ?? 0) > 1) throw new ClientError(`Received n=${n}, but only single choice (n=1) is currently supported`);
}

function checkStreamOptions(body: OpenAiBody): void {
  if (body.stream_options !== null && body.stream !== true)
    throw new ClientError("`stream_options` can only be used when `stream` is True");
}

function checkTools(
  tools: readonly Tool[],
  choice: string | ToolChoice | null,
  { toolCallParser }: FrontSettings,
): void {
  const none = tools.length === 0;
  if (choice === "required" && none)
    throw new ClientError('"required" tool choice requires CreateChatCompletionRequest.tools to be provided');
  if (typeof choice === "object" && choice !== null && none)
    throw new ClientError("Named tool choice requires CreateChatCompletionRequest.tools to be provided");
  if (choice === "auto" && toolCallParser === "")
    throw new ClientError('"auto" tool choice requires --tool-call-parser to be set');
  if (choice === null && !none && toolCallParser === "")
    throw new ClientError("having tools in the request requires --tool-call-parser to be set");
}

function schemaOf(calls: string | null, tools: readonly Tool[] | null): string | null {
  if (calls === null) return null;
  const tool = tools?.find((one) => one.function.name === calls);
  if (tool === undefined) throw new ClientError(`Tool '${calls}' has not been passed in \`tools\`.`);
  return JSON.stringify(tool.function.parameters ?? { type: "object" });
}

interface Message {
  readonly role: string;
  readonly content?: string | readonly { readonly text?: string }[] | null;
  readonly tool_calls?: readonly unknown[] | null;
  readonly tool_call_id?: string;
  readonly name?: string;
}

function templated({ role, content = null, tool_calls: toolCalls, tool_call_id: toolCallId, name }: Message) {
  const text = Array.isArray(content) ? content.map((part: { text?: string }) => part.text ?? "").join("\n") : content;
  return {
    role,
    content: text as string | null,
    ...(toolCalls ? { toolCalls } : {}),
    ...(toolCallId === undefined ? {} : { toolCallId }),
    ...(name === undefined ? {} : { name }),
  };
}

/** Returns the text of a part. Control tokens become text, because the backend recognises them by spelling. */
const spelled = (part: PromptPart, vocabulary: Vocabulary): string =>
  typeof part === "string" ? part : Buffer.from(vocabulary.bytesOf(part)).toString();
