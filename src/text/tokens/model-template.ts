/**
 * Renders conversations with a model's own chat template, like `apply_chat_template` of transformers: special tokens by name, and
 * arguments of tool calls as objects. The template engine is `@huggingface/jinja`.
 */
import { Template } from "@huggingface/jinja";
import { jsonObjectIn } from "../../base/json-object.ts";
import { type RenderChat, type TemplateMessage, TemplateRefusal } from "./chat-template.ts";
import type { ModelTemplate } from "./types.ts";

/** Marks the end of a last message that the answer continues. No ordinary text contains it. */
const OPEN = "\u{10fffd}continue\u{10fffd}";

/** Returns the renderer of a template. Throws a `SyntaxError` if the template is invalid. */
export function modelTemplate({ chatTemplate, specials }: ModelTemplate): RenderChat {
  if (chatTemplate === null)
    return () => {
      throw new TemplateRefusal(
        "As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template if the tokenizer does not define one.",
      );
    };
  const template = new Template(chatTemplate);
  const knowsDevelopers = /"developer"|'developer'/.test(chatTemplate);
  return (messages, addGenerationPrompt, continueFinalMessage, tools, variables = {}) => {
    const plain = messages.map(plainMessage);
    const conversation = knowsDevelopers ? plain : withoutDevelopers(plain);
    const last = conversation.at(-1);
    if (continueFinalMessage && last) last.content = `${last.content ?? ""}${OPEN}`;
    const text = render(template, {
      ...specials,
      messages: conversation,
      tools: tools ?? null,
      documents: null,
      ...usedVariables(variables),
      add_generation_prompt: addGenerationPrompt,
    });
    const open = continueFinalMessage ? text.lastIndexOf(OPEN) : -1;
    return [open < 0 ? text : text.slice(0, open)];
  };
}

/** Names that the template engine declares and that cannot be set again. In Jinja they can, but no template needs it. */
const DECLARED = ["false", "true", "none", "False", "True", "None", "raise_exception", "range", "strftime_now"];

/** Drops variables that are null or "auto", like vLLM 0.33 (`merge_kwargs` of `renderers/params.py`), and declared names. */
function usedVariables(variables: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const isUsed = ([name, value]: [string, unknown]) => value !== null && value !== "auto" && !DECLARED.includes(name);
  return Object.fromEntries(Object.entries(variables).filter(isUsed));
}

function render(template: Template, context: Record<string, unknown>): string {
  try {
    return template.render(context);
  } catch (error) {
    throw new TemplateRefusal((error as Error).message);
  }
}

/** A message as the template reads it. */
interface PlainMessage {
  role: string;
  content: string | null;
  name?: string;
  tool_calls?: unknown[];
  tool_call_id?: string;
}

function plainMessage({ role, content, name, toolCalls, toolCallId, callsAsMade }: TemplateMessage): PlainMessage {
  const plain: PlainMessage = { role, content };
  if (name) plain.name = name;
  if (toolCallId) plain.tool_call_id = toolCallId;
  if (toolCalls?.length) plain.tool_calls = toolCalls.map((call) => withObjects(call, callsAsMade === true));
  return plain;
}

/**
 * Joins messages of developers and the system to one system message at the start, for templates that do not know developers.
 * Source: vLLM 0.33, `renderers/hf.py`.
 */
function withoutDevelopers(messages: readonly PlainMessage[]): PlainMessage[] {
  if (!messages.some(({ role }) => role === "developer")) return [...messages];
  const isSystem = ({ role }: PlainMessage) => role === "developer" || role === "system";
  const systems = messages.filter(isSystem);
  if (systems.length === 1 && isSystem(messages[0]!))
    return [{ ...messages[0]!, role: "system" }, ...messages.slice(1)];
  const content = systems.flatMap((message) => message.content || []).join("\n\n");
  return [{ role: "system", content }, ...messages.filter((message) => !isSystem(message))];
}

/** Parses the arguments of a call, because templates read objects. `nameFirst`: true for calls from items of a response. */
function withObjects(call: unknown, nameFirst: boolean): unknown {
  const { id, function: called, ...rest } = call as { id?: unknown; function?: Record<string, unknown> };
  if (called === undefined) return call;
  const { arguments: args, name, ...more } = called;
  const members = nameFirst ? { name, arguments: parsed(args) } : { arguments: parsed(args), name };
  return { id, function: { ...members, ...more }, ...rest };
}

/** Parses arguments. A text that is no JSON object becomes an empty object, as in vLLM. */
const parsed = (args: unknown): unknown => (typeof args === "string" ? (jsonObjectIn(args) ?? {}) : args);
