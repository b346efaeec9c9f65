/**
 * How does a model's own chat template write a conversation? With `@huggingface/jinja`, as transformers'
 * `apply_chat_template` does: the special tokens by name, tool arguments as objects, no blanks of its own.
 */
import { Template } from "@huggingface/jinja";
import { jsonObjectIn } from "../../base/json-object.ts";
import { type RenderChat, type TemplateMessage, TemplateRefusal } from "./chat-template.ts";
import type { ModelTemplate } from "./types.ts";

/** Marks where the last message is left open; no text of a user's holds it but by intent. */
const OPEN = "\u{10fffd}continue\u{10fffd}";

/** Throws a `SyntaxError` where the template is none. */
export function modelTemplate({ chatTemplate, specials }: ModelTemplate): RenderChat {
  if (chatTemplate === null)
    return () => {
      throw new TemplateRefusal(
        "As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template if the tokenizer does not define one.",
      );
    };
  const template = new Template(chatTemplate);
  const knowsDevelopers = /"developer"|'developer'/.test(chatTemplate);
  return (messages, addGenerationPrompt, continueFinalMessage, tools, more = {}) => {
    const plain = messages.map(plainMessage);
    const given = knowsDevelopers ? plain : withoutDevelopers(plain);
    const last = given.at(-1);
    if (continueFinalMessage && last) last.content = `${last.content ?? ""}${OPEN}`;
    const text = render(template, {
      ...specials,
      messages: given,
      tools: tools ?? null,
      documents: null,
      ...said(more),
      add_generation_prompt: addGenerationPrompt,
    });
    const open = continueFinalMessage ? text.lastIndexOf(OPEN) : -1;
    return [open < 0 ? text : text.slice(0, open)];
  };
}

/** What the template engine declares itself, and does not take twice; Jinja lets it be hidden, which no template needs. */
const DECLARED = ["false", "true", "none", "False", "True", "None", "raise_exception", "range", "strftime_now"];

/** Names that say something: vLLM 0.33 drops the others (`merge_kwargs` of `renderers/params.py`). */
function said(names: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const isSaid = ([name, value]: [string, unknown]) => value !== null && value !== "auto" && !DECLARED.includes(name);
  return Object.fromEntries(Object.entries(names).filter(isSaid));
}

function render(template: Template, context: Record<string, unknown>): string {
  try {
    return template.render(context);
  } catch (error) {
    throw new TemplateRefusal((error as Error).message);
  }
}

interface Plain {
  role: string;
  content: string | null;
  name?: string;
  tool_calls?: unknown[];
  tool_call_id?: string;
}

function plainMessage({ role, content, name, toolCalls, toolCallId, callsAsMade }: TemplateMessage): Plain {
  const plain: Plain = { role, content };
  if (name) plain.name = name;
  if (toolCallId) plain.tool_call_id = toolCallId;
  if (toolCalls?.length) plain.tool_calls = toolCalls.map((call) => withObjects(call, callsAsMade === true));
  return plain;
}

/** A template that does not know developers gets what they say from the system: all in one message, in front (vLLM 0.33, `renderers/hf.py`). */
function withoutDevelopers(messages: readonly Plain[]): Plain[] {
  if (!messages.some(({ role }) => role === "developer")) return [...messages];
  const isSystem = ({ role }: Plain) => role === "developer" || role === "system";
  const systems = messages.filter(isSystem);
  if (systems.length === 1 && isSystem(messages[0]!))
    return [{ ...messages[0]!, role: "system" }, ...messages.slice(1)];
  const content = systems.flatMap((one) => one.content || []).join("\n\n");
  return [{ role: "system", content }, ...messages.filter((one) => !isSystem(one))];
}

/** Arguments come as text, and templates want what it says; keys in the order of OpenAI's own types, or as vLLM makes them of items. */
function withObjects(call: unknown, asMade: boolean): unknown {
  const { id, function: called, ...rest } = call as { id?: unknown; function?: Record<string, unknown> };
  if (called === undefined) return call;
  const { arguments: given, name, ...more } = called;
  const told = asMade ? { name, arguments: parsed(given) } : { arguments: parsed(given), name };
  return { id, function: { ...told, ...more }, ...rest };
}

/** What is no object is an empty one, as in vLLM. */
const parsed = (given: unknown): unknown => (typeof given === "string" ? (jsonObjectIn(given) ?? {}) : given);
