/** Returns the tables of docs/reference/parameters.md, from the tables by which servers check requests. */
import type { Effect, Parameter } from "../../src/servers/openai/docs/parameter.ts";
import { checkPrompt, checkSampling } from "../../src/servers/openai/request/sampling.ts";
import type { ErrorAnswer } from "../../src/servers/pydantic/refusals.ts";
import type { Field, Fields } from "../../src/servers/pydantic/validate.ts";
import { chatFields, completionFields } from "../../src/servers/vllm/openai/fields.ts";
import { type ChatKind, type openaiParameters, parameterOf } from "../../src/servers/vllm/openai/parameters.ts";
import { readChat, readCompletion } from "../../src/servers/vllm/openai/read.ts";
import { type Example, exampleOf } from "../../test/conformance/parameter-examples.ts";
import { type DialectTable, dialectRefusal, dialectTables, LIMITS } from "./dialect-tables.ts";
import { cellText, markdownTable } from "./markdown.ts";

export const FIELDS: Readonly<Record<ChatKind, Fields>> = { chat: chatFields, completions: completionFields };
export const PATHS: Readonly<Record<ChatKind, string>> = {
  chat: "/v1/chat/completions",
  completions: "/v1/completions",
};
/** A valid request. A test copies it and replaces the fields that its example names. */
export const PLAIN: Readonly<Record<ChatKind, object>> = {
  chat: {
    messages: [{ role: "user", content: "Hello there, how are you today?" }],
    model: "m",
    max_tokens: 12,
    seed: 5,
  },
  completions: { prompt: "Hello there, how are you today?", model: "m", max_tokens: 12, seed: 5 },
};
export const namesOf = (kind: ChatKind) => Object.keys(FIELDS[kind]) as (keyof typeof openaiParameters)[];

/**
 * Returns the error of a server for the value `refused` of an example. The server has the built-in vocabulary and a context of
 * 4,096 tokens. Null if it accepts the value.
 */
export function refusalOf(kind: ChatKind, name: keyof typeof openaiParameters): ErrorAnswer | null {
  const body = { ...PLAIN[kind], [name]: exampleOf(kind, name).refused };
  const bytes = new TextEncoder().encode(JSON.stringify(body));
  const read = (kind === "chat" ? readChat : readCompletion)(bytes, "application/json", LIMITS);
  if ("error" in read) return read.error;
  const checked = checkPrompt(read.request, 8, true, LIMITS);
  return "error" in checked ? checked.error : checkSampling(read.request, LIMITS, 8);
}

export function parametersMarkdown(): string {
  const sections = [...(["chat", "completions"] as const).map(section), ...dialectTables.map(dialectSection)];
  return sections.join("\n\n");
}

function section(kind: ChatKind): string {
  const lines = namesOf(kind).map((name) => {
    const wrong = error(`${kind}: ${name}`, exampleOf(kind, name), () => refusalOf(kind, name));
    return line(name, FIELDS[kind][name]!, parameterOf(kind, name), wrong);
  });
  return table(PATHS[kind], lines);
}

function dialectSection(of: DialectTable): string {
  const lines = Object.entries(of.fields).map(([name, field]) => {
    const wrong = error(`${of.path}: ${name}`, of.examples[name]!, () => dialectRefusal(of, name));
    return line(name, field, of.rows[name]!, wrong);
  });
  return table(of.path, lines);
}

const HEADING = ["Field", "Type", "Default", "Limits", "An error", "Effect"];
const table = (path: string, rows: readonly string[][]) => `## POST ${path}\n\n${markdownTable([HEADING, ...rows])}`;

function line(name: string, field: Field<unknown>, parameter: Parameter, wrong: string): string[] {
  const byDefault = "default" in field ? code(field.default) : "required";
  const [type, limits] = [cellText(field.type.name), cellText(parameter.limits ?? "")];
  return [`\`${name}\``, type, byDefault, limits, wrong, cellText(effect(parameter.effect))];
}

function error(where: string, { refused }: Example, refusalOf: () => ErrorAnswer | null): string {
  if (refused === undefined) return "";
  const refusal = refusalOf();
  if (refusal === null) throw new Error(`${where} ${JSON.stringify(refused)} is not refused`);
  const text = (JSON.parse(refusal.body) as { error: { message: string } }).error.message;
  // Read the error and its location from the first entry of pydantic's list.
  const [, type, place, , message] =
    /'type': '(\w+)', 'loc': '([^']*)', 'msg': (['"])(.*?)\3, 'input'/.exec(text) ?? [];
  return `${code(refused)}: ${cellText(type === undefined ? text : `${type}, ${place}: ${message}`)}`;
}

function effect(what: Effect): string {
  if ("seen" in what) return what.seen;
  return "neither" in what ? `*None in vLLM either:* ${what.neither}` : `*None here:* ${what.here}`;
}

const code = (value: unknown) => `\`${JSON.stringify(value).replaceAll("|", "\\|")}\``;
