/**
 * Converts a checked request of Anthropic's Messages API to the body of a chat completion, which vLLM answers in its place.
 * Source: vLLM 0.33, `entrypoints/anthropic/serving.py` (to_chat_completion_request).
 */

import { mapped, type Pieces } from "../../../base/pieces.ts";
import { badRequest } from "../../openai/request/errors.ts";
import { optionalMembers } from "../../openai/request/shared-fields.ts";
import { pythonDumps } from "../../pydantic/dumps.ts";
import { refuse } from "../../pydantic/refusals.ts";
import { repr } from "../../pydantic/repr.ts";
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
import type { countFields, messagesFields } from "./fields.ts";

export type MessagesValues = Values<typeof messagesFields>;
export type CountValues = Values<typeof countFields>;

/** Start of a text that Claude Code sends. vLLM drops it, because it differs per request and would spoil the prefix cache. */
const BILLING = "x-anthropic-billing-header";

/** Fields that a message and a chat have in common. */
const SAME = ["temperature", "top_p", "top_k", "watermarking", "kv_transfer_params", "ec_transfer_params"] as const;

/** Properties of the chat template that change the conversion. */
export interface TemplateHabits {
  /** True if the template accepts a system message only at the start, so that all of them are joined there. */
  readonly mergesSystem: boolean;
  /** True if the template cannot switch thinking off. Disabled thinking then becomes the lowest effort. */
  readonly thinksAnyway: boolean;
}

/** Converts the fields that both routes have. In pieces, because there may be thousands of messages and tools. */
export function* messagesToChat(
  values: CountValues | MessagesValues,
  body: PythonDict,
  habits: TemplateHabits,
): Pieces<PlainDict> {
  const { mergesSystem, thinksAnyway } = habits;
  const messages = get(body, "messages") as readonly PythonDict[];
  const system = systemTexts(get(body, "system") ?? null);
  const inline = mergesSystem
    ? messages.filter(isSystem).map((message) => systemTexts(get(message, "content") ?? null))
    : [];
  const first = [...system, ...inline.flat()];
  const chat: PlainDict = {
    model: values.model,
    messages: [
      ...(first.length > 0 ? [{ role: "system", content: first.join("") }] : []),
      ...(yield* mapped(messages, (message) => (mergesSystem && isSystem(message) ? [] : converted(message)))).flat(),
    ],
    chat_template_kwargs: values.chat_template_kwargs,
  };
  setOutput(chat, values);
  setThinking(chat, values, thinksAnyway);
  yield* setTools(chat, values, messages);
  return chat;
}

/** Converts a generation request: the fields of `messagesToChat`, and those that a count of tokens lacks. */
export function* toGenerationBody(values: MessagesValues, body: PythonDict, habits: TemplateHabits): Pieces<PlainDict> {
  const { max_tokens: most, stream, cache_salt: salt } = values;
  const order = get(body, "understudy");
  return {
    ...(yield* messagesToChat(values, body, habits)),
    ...Object.fromEntries(SAME.map((name) => [name, values[name]])),
    max_tokens: most,
    max_completion_tokens: most,
    stop: values.stop_sequences,
    ...(salt === null ? {} : { cache_salt: salt }),
    vllm_xargs: get(body, "vllm_xargs") ?? null,
    ...(stream ? { stream: true } : {}),
    ...(order === undefined ? {} : { understudy: order }),
  };
}

const isSystem = (message: PythonDict) => get(message, "role") === "system";

/** Returns the non-empty texts of a system prompt, except Claude Code's billing header. */
function systemTexts(content: PythonValue): string[] {
  if (typeof content === "string") return content === "" || content.startsWith(BILLING) ? [] : [content];
  if (!isList(content)) return [];
  return content.flatMap((block) => {
    const text = get(block as PythonDict, "text");
    const isText = get(block as PythonDict, "type") === "text" && typeof text === "string" && text !== "";
    return isText && !text.startsWith(BILLING) ? [text] : [];
  });
}

/** Converts one message to messages of a chat. Each result of a tool becomes its own message. */
function converted(message: PythonDict): PlainDict[] {
  const role = get(message, "role") as string;
  const content = get(message, "content") as PythonValue;
  if (role === "system") {
    const text = systemTexts(content).join("");
    return text === "" ? [] : [{ role, content: text }];
  }
  if (!isList(content)) return [{ role, content }];
  const converter = new MessageConverter(role);
  for (const block of content) converter.add(block as PythonDict);
  return converter.messages();
}

/** Converts the content blocks of one message. */
class MessageConverter {
  /** Messages before the message itself: results of tools. */
  readonly #before: PlainDict[] = [];
  readonly #parts: PlainDict[] = [];
  readonly #calls: PlainDict[] = [];
  readonly #thoughts: string[] = [];

  constructor(private readonly role: string) {}

  add(block: PythonDict): void {
    const text = get(block, "text");
    const source = get(block, "source");
    const thinking = get(block, "thinking");
    const type = get(block, "type");
    if (type === "text" && truthy(text)) this.#parts.push({ type: "text", text: text as string });
    else if (type === "image" && truthy(source)) this.#parts.push(imagePart(source as PythonDict));
    else if (type === "thinking" && typeof thinking === "string") this.#thoughts.push(thinking);
    else if (type === "tool_use") this.#calls.push(callOf(block));
    else if (type === "tool_result") this.#result(block);
  }

  messages(): PlainDict[] {
    const message: PlainDict = { role: this.role };
    if (this.#thoughts.length > 0) message.reasoning = this.#thoughts.join("");
    if (this.#calls.length > 0) message.tool_calls = this.#calls;
    const [only] = this.#parts;
    if (this.#parts.length === 1 && only!.type === "text") message.content = only!.text!;
    else if (this.#parts.length > 0) message.content = this.#parts;
    const empty = this.role === "user" && message.content === undefined;
    return empty ? this.#before : [...this.#before, message];
  }

  #result(block: PythonDict): void {
    const content = get(block, "content") ?? null;
    if (this.role !== "user") {
      const shown = truthy(content) ? (typeof content === "string" ? content : repr(content)) : "";
      this.#parts.push({ type: "text", text: `Tool result: ${shown}` });
      return;
    }
    const items = isList(content) ? content.filter(isDict) : [];
    const ofType = (type: string) => items.filter((item) => get(item, "type") === type);
    const texts = ofType("text").map((item) => (get(item, "text") ?? "") as string);
    const id = (get(block, "tool_use_id") as string | null | undefined) || "";
    const result = (value: PythonValue): PlainDict => ({ role: "tool", tool_call_id: id, content: value });
    this.#before.push(result(typeof content === "string" ? content : texts.join("\n")));
    const images = ofType("image").map((item) => imagePart((get(item, "source") ?? {}) as PythonDict));
    if (images.length > 0) this.#before.push({ role: "user", content: images });
    const names = ofType("tool_reference").map((item) => get(item, "tool_name") || get(item, "name"));
    const references = names.filter(truthy).map((name) => ({ type: "tool_reference", name: name as string }));
    if (references.length > 0) this.#before.push(result(references));
  }
}

function imagePart(source: PythonDict): PlainDict {
  const of = (name: string, absent: string) => (get(source, name) as string | undefined) ?? absent;
  const url =
    get(source, "type") === "url" ? of("url", "") : `data:${of("media_type", "image/jpeg")};base64,${of("data", "")}`;
  return { type: "image_url", image_url: { url } };
}

function callOf(block: PythonDict): PlainDict {
  const input = get(block, "input") ?? null;
  return {
    id: (get(block, "id") as string | null | undefined) || "call_0",
    type: "function",
    function: {
      name: (get(block, "name") as string | null | undefined) || "",
      arguments: pythonDumps(truthy(input) ? input : {}),
    },
  };
}

function setOutput(chat: PlainDict, { output_config: config }: CountValues): void {
  if (config === null) return;
  const format = get(config, "format") ?? null;
  const schema = format === null ? null : (get(format as PythonDict, "schema") ?? null);
  if (truthy(schema))
    chat.response_format = { type: "json_schema", json_schema: { name: "json_schema", schema: schema as PythonDict } };
  const effort = get(config, "effort") ?? null;
  if (effort !== null) chat.reasoning_effort = effort;
}

function setThinking(chat: PlainDict, { thinking }: CountValues, thinksAnyway: boolean): void {
  if (thinking === null) return;
  if (thinking.get("type") === "disabled") chat.reasoning_effort = thinksAnyway ? "low" : "none";
  else if (thinking.get("type") === "enabled") chat.thinking_token_budget = thinking.get("budget_tokens") as number;
}

const CHOICES: Readonly<Record<string, string>> = { auto: "auto", any: "required", none: "none" };

function* setTools(chat: PlainDict, values: CountValues, messages: readonly PythonDict[]): Pieces<void> {
  const tools = toolsInEffect(values.tools, messages);
  const choice = values.tool_choice;
  if (choice !== null) {
    chat.parallel_tool_calls = choice.get("disable_parallel_tool_use") !== true;
    const type = choice.get("type") as string;
    const named = { type: "function", function: { name: (choice.get("name") ?? "") as string } };
    chat.tool_choice = CHOICES[type] ?? named;
  }
  if (tools !== null) {
    chat.tools = yield* mapped(tools, toolOf);
    if (choice === null) chat.tool_choice = "auto";
  } else if (choice === null) chat.tool_choice = null;
}

function withType(schema: PythonDict): PythonDict {
  return schema instanceof Map ? new Map([...schema, ["type", "object"]]) : { ...schema, type: "object" };
}

function toolOf(tool: PythonDict): PlainDict {
  const schema = get(tool, "input_schema") as PythonDict;
  return {
    type: "function",
    function: {
      name: get(tool, "name") as string,
      description: get(tool, "description") ?? null,
      parameters: get(schema, "type") === undefined ? withType(schema) : schema,
      ...optionalMembers(tool),
    },
  };
}

/** Returns the request's tools, with the additions and removals in its messages. Returns null if it has none of these. */
function toolsInEffect(
  declared: readonly PythonDict[] | null,
  messages: readonly PythonDict[],
): readonly PythonDict[] | null {
  const blocks = messages.flatMap((message) => {
    const content = get(message, "content") as PythonValue;
    return isList(content) ? (content as readonly PythonDict[]) : [];
  });
  const changes = blocks.filter((block) => ["tool_addition", "tool_removal"].includes(get(block, "type") as string));
  if (changes.length === 0) return declared;
  const tools = new Map((declared ?? []).map((tool) => [get(tool, "name") as string, tool]));
  const removed = new Set<string>();
  for (const block of changes) {
    const [type, change] = [get(block, "type") as string, get(block, "tool") as PythonDict];
    const definition = get(change, "definition") as PythonDict | undefined;
    const name = (definition === undefined ? get(change, "name") : get(definition, "name")) as string;
    if (definition !== undefined) tools.set(name, definition);
    else if (!tools.has(name))
      refuse(badRequest(`${type} references tool ${repr(name)}, which is not declared in tools`));
    if (type === "tool_removal") removed.add(name);
    else removed.delete(name);
  }
  return [...tools].filter(([name]) => !removed.has(name)).map(([, tool]) => tool);
}
