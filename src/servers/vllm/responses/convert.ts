/**
 * Converts a checked request of OpenAI's Responses API to the body of a chat completion, which is answered in its place. Source:
 * vLLM 0.33, `entrypoints/openai/responses/utils.py` (construct_input_messages) and `protocol.py` (to_sampling_params).
 */

import { ITEMS_OF_A_PIECE, mapped, type Pieces } from "../../../base/pieces.ts";
import { refuseValue } from "../../openai/request/errors.ts";
import { optionalMembers } from "../../openai/request/shared-fields.ts";
import { pythonDumps } from "../../pydantic/dumps.ts";
import type { Values } from "../../pydantic/validate.ts";
import {
  get,
  isDict,
  isList,
  type PlainDict,
  type PythonDict,
  type PythonValue,
  truthy,
} from "../../pydantic/value.ts";
import type { responsesFields } from "./fields.ts";

export type ResponsesValues = Values<typeof responsesFields>;

/** An earlier response that a request continues. */
export interface PreviousResponse {
  /** The conversation that it answered. */
  readonly messages: readonly PlainDict[];
  /** Texts of the messages in its output. */
  readonly texts: readonly string[];
}

/** Fields that a response and a chat have in common. */
const SAME = [
  "model",
  "temperature",
  "top_p",
  "top_k",
  "min_p",
  "seed",
  "ignore_eos",
  "priority",
  "watermarking",
  "presence_penalty",
  "frequency_penalty",
  "repetition_penalty",
  "skip_special_tokens",
  "spaces_between_special_tokens",
  "include_stop_str_in_output",
  "include_reasoning",
  "chat_template_kwargs",
  "kv_transfer_params",
  "ec_transfer_params",
] as const;
/** Fields in common whose values are passed on as sent, because the chat's table converts them. */
const RAW = ["logit_bias", "stop", "stop_token_ids", "media_io_kwargs", "mm_processor_kwargs", "vllm_xargs"];
/** Statuses of an item that the answer continues. */
const OPEN = ["in_progress", "incomplete"];

/** Returns the conversation, in pieces, for there may be thousands of items. Drops instructions of earlier responses. */
export function* inputMessages(
  values: ResponsesValues,
  body: PythonDict,
  previous: PreviousResponse | null,
): Pieces<PlainDict[]> {
  const { instructions } = values;
  const messages: PlainDict[] = [
    ...(instructions ? [{ role: "system", content: instructions }] : []),
    ...(previous?.messages ?? []).filter(({ role }) => role !== "system"),
    ...(previous?.texts ?? []).map((content) => ({ role: "assistant", content })),
  ];
  const input = get(body, "input") as PythonValue;
  if (typeof input === "string") return [...messages, { role: "user", content: input }];
  // Kept apart from `messages`, because `addItem` may join an item to the item before it, but not to an earlier message.
  const items: PlainDict[] = [];
  let seen = 0;
  for (const item of input as readonly PythonDict[]) {
    addItem(items, item);
    if (++seen % ITEMS_OF_A_PIECE === 0) yield;
  }
  return [...messages, ...items];
}

/** Returns the body of the chat, in pieces, because there may be thousands of tools. */
export function* responseToChat(values: ResponsesValues, body: PythonDict, messages: PlainDict[]): Pieces<PlainDict> {
  const tools = yield* toolsOf(values);
  const isContinued = continuesLast(get(body, "input") as PythonValue);
  const effort = values.reasoning === null ? null : (get(values.reasoning, "effort") ?? null);
  const wantsLogprobs = values.include?.includes("message.output_text.logprobs") === true;
  const raw = (name: string) => [name, get(body, name) ?? null] as const;
  return {
    ...Object.fromEntries(SAME.map((name) => [name, values[name]])),
    ...Object.fromEntries(RAW.map(raw)),
    messages,
    ...(values.max_output_tokens === null ? {} : { max_tokens: values.max_output_tokens }),
    ...(wantsLogprobs ? { logprobs: true, top_logprobs: values.top_logprobs } : {}),
    ...(values.cache_salt === null ? {} : { cache_salt: values.cache_salt }),
    ...(effort === null ? {} : { reasoning_effort: effort }),
    add_special_tokens: true,
    ...(isContinued ? { continue_final_message: true, add_generation_prompt: false } : {}),
    ...(values.truncation === "auto" ? { truncate_prompt_tokens: -1 } : {}),
    ...constraintOf(values),
    ...tools,
    ...(values.stream ? { stream: true } : {}),
    ...(get(body, "understudy") === undefined ? {} : { understudy: get(body, "understudy") as PythonValue }),
  };
}

/** Reports whether the answer continues the last item: its status says that it is not complete. */
function continuesLast(input: PythonValue): boolean {
  const last = isList(input) ? input.at(-1) : undefined;
  if (!isDict(last)) return false;
  const type = get(last, "type") ?? "message";
  return ["message", "reasoning"].includes(type as string) && OPEN.includes(get(last, "status") as string);
}

function constraintOf({ text, structured_outputs: structured }: ResponsesValues): PlainDict {
  const format = text === null ? null : ((get(text, "format") ?? null) as PythonDict | null);
  if (format === null) return structured === null ? {} : { structured_outputs: structured };
  if (structured !== null) refuseValue("Cannot specify both structured_outputs and text.format", "structured_outputs");
  const type = get(format, "type");
  if (type === "json_object") return { response_format: { type } };
  if (type !== "json_schema") return {};
  const schema = { name: get(format, "name") as string, schema: get(format, "schema") as PythonDict };
  return { response_format: { type: "json_schema", json_schema: schema } };
}

/** Returns the chat's tools and tool choice. Leaves out tools of the server, because none runs here. */
function* toolsOf({ tools, tool_choice: choice, parallel_tool_calls: parallel }: ResponsesValues): Pieces<PlainDict> {
  const functions = tools.flatMap(functionOf);
  if (functions.length === 0) return {};
  const chatTools = yield* mapped(functions, (tool): PlainDict => {
    const [description = null, parameters = null] = [get(tool, "description"), get(tool, "parameters")];
    const called = { name: get(tool, "name") as string, description, parameters, ...optionalMembers(tool) };
    return { type: "function", function: called };
  });
  return {
    tools: chatTools,
    tool_choice: toChatChoice(choice),
    ...(parallel === null ? {} : { parallel_tool_calls: parallel }),
  };
}

/** Converts a tool choice. vLLM does not restrict calls to the allowed tools, so `allowed_tools` becomes `auto`. */
function toChatChoice(choice: string | PythonDict): PythonValue {
  if (typeof choice === "string") return choice;
  return get(choice, "type") === "allowed_tools"
    ? "auto"
    : { type: "function", function: { name: get(choice, "name") as string } };
}

/** Returns the tool if it is a function, or a function with one text for a custom tool. Returns nothing for other tools. */
function functionOf(tool: PythonDict): readonly PythonDict[] {
  const type = get(tool, "type");
  if (type === "function") return [tool];
  if (type !== "custom") return [];
  const parameters = {
    type: "object",
    properties: { input: { type: "string", description: "The freeform text payload for this tool." } },
    required: ["input"],
    additionalProperties: false,
  };
  return [{ name: get(tool, "name")!, description: get(tool, "description") ?? null, parameters }];
}

/** Adds an item: as a new message, or as a part of the assistant's message before it. Throws `RefusedRequest`. */
function addItem(messages: PlainDict[], item: PythonDict): void {
  const last = messages.at(-1);
  const before = last?.role === "assistant" ? last : null;
  const type = get(item, "type") as string | undefined;
  const role = get(item, "role");
  /** Sets a member of the assistant's message before, if that lacks it. Otherwise adds a message. */
  const join = (name: "content" | "reasoning", value: PythonValue) => {
    if (before !== null && (before[name] ?? null) === null) before[name] = value;
    else messages.push({ role: "assistant", [name]: value });
  };
  if (type === "function_call" || type === "custom_tool_call") {
    const call = callOf(item, type === "custom_tool_call");
    if (before === null) messages.push({ role: "assistant", tool_calls: [call] });
    else if (before.tool_calls === undefined) before.tool_calls = [call];
    else (before.tool_calls as PythonValue[]).push(call);
  } else if (type === "reasoning") join("reasoning", thoughtOf(item));
  else if (type === "function_call_output" || type === "custom_tool_call_output")
    messages.push({ role: "tool", content: plainContent(get(item, "output")!), tool_call_id: get(item, "call_id")! });
  else if (role === "assistant") join("content", firstText(get(item, "content") as PythonValue));
  else if (role !== undefined)
    messages.push({ role: role as string, content: plainContent(get(item, "content") as PythonValue) });
  else refuseValue(`Unsupported input item type: ${type}`, "input");
}

function callOf(item: PythonDict, custom: boolean): PlainDict {
  const json = custom ? pythonDumps({ input: get(item, "input") ?? "" }) : (get(item, "arguments") as string);
  const called = { name: get(item, "name") as string, arguments: json };
  return { id: get(item, "call_id") as string, type: "function", function: called };
}

/** Returns the first text of a reasoning item, or "". Throws `RefusedRequest` if the item is encrypted. */
function thoughtOf(item: PythonDict): string {
  if (truthy(get(item, "encrypted_content"))) refuseValue("Encrypted content is not supported.", "input");
  const [first] = [...texts(get(item, "content")), ...texts(get(item, "summary"))];
  return first ?? "";
}

function firstText(content: PythonValue): PythonValue {
  return typeof content === "string" ? content : (texts(content)[0] ?? null);
}

function texts(parts: PythonValue | undefined): string[] {
  if (!isList(parts)) return [];
  return parts.flatMap((part) => {
    const text = isDict(part) ? get(part, "text") : undefined;
    return typeof text === "string" ? [text] : [];
  });
}

/** Converts content parts to those of a chat. */
function plainContent(content: PythonValue): PythonValue {
  if (!isList(content)) return content;
  return content.map((part): PythonValue => {
    if (!isDict(part)) return part;
    const type = get(part, "type");
    if (type === "input_text" || type === "output_text") return { type: "text", text: get(part, "text") ?? "" };
    if (type !== "input_image") return part;
    const url = get(part, "image_url") ?? null;
    return { type: "image_url", image_url: { url: url === null ? "" : url } };
  });
}
