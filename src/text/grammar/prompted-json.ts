/**
 * Answers prompts that ask for JSON in words. The answer is a value of the prompt's JSON Schema, or has the shape of its example
 * or the keys that it names. If the prompt describes tools, the answer is a call. Supports the prompts of LangChain, Spring AI,
 * genkit, ragas, deepeval, DSPy and Qwen-Agent (docs/how-to/structured-output.md).
 */
import { argumentsOf, writeCalls } from "./calls.ts";
import type { Draws } from "./draws.ts";
import { schemaOfExample, typeNamed } from "./example-schema.ts";
import { jsonText } from "./json-text.ts";
import { type FoundJson, type FoundObject, findJson, isFoundObject } from "./loose-json.ts";
import { schemaIn } from "./prompt-schema.ts";
import type { Schema } from "./schema.ts";
import { ANY_OBJECT, schemaText } from "./schema-text.ts";

/** A prompt that may ask for JSON. */
export interface PromptedJson {
  readonly kind: "prompted";
  /** Texts of the system and the user, in order. */
  readonly texts: readonly string[];
  /** True if the answer must be a JSON object, for example by `response_format`. */
  readonly mustBeObject: boolean;
  /** True if the answer is JSON even if the prompt asks for none. */
  readonly always: boolean;
  /** Share of the answers that call a tool of the prompt, or the names of the tools to call. */
  readonly calls: number | readonly string[];
}

/** An object or array of the prompt, with the text before it. */
interface Candidate extends FoundJson {
  /** Text before it, from the end of the candidate before. */
  readonly before: string;
  /** The end of that text. */
  readonly lead: string;
}

/** Most characters of `before`, which may describe a tool. */
const BEFORE_MOST = 8192;
/** Most characters of `lead`, which tells whether the candidate is an example. */
const LEAD_MOST = 300;

/** Returns a writer of answers. It returns null if the prompt asks for no JSON. */
export function promptedWriter({ texts, mustBeObject, always, calls }: PromptedJson): (draws: Draws) => string | null {
  const candidates = texts.flatMap(candidatesIn);
  const caller = callerOf(texts, candidates);
  const others = candidates.filter(({ value }) => caller === null || !caller.describes(value));
  // With tools, the words about JSON in a prompt are about the arguments of calls.
  const schema = lastSchema(others) ?? (caller === null ? schemaInWords(texts, others) : null);
  const isFenced = schema !== null && texts.some((text) => FENCED.test(text));
  return (draws) => {
    const toolNames = caller === null ? [] : calledOf(caller, calls, draws);
    if (toolNames.length > 0) return caller!.write(toolNames, draws);
    if (schema === null) return mustBeObject || always ? schemaText(ANY_OBJECT, draws) : null;
    const text = schemaText(schema, draws);
    if (mustBeObject && !text.startsWith("{")) return schemaText(ANY_OBJECT, draws);
    return isFenced && !mustBeObject ? `\`\`\`json\n${text}\n\`\`\`` : text;
  };
}

function candidatesIn(text: string): Candidate[] {
  let end = 0;
  return findJson(text).map((found) => {
    const before = text.slice(Math.max(end, found.from - BEFORE_MOST), found.from);
    end = found.to;
    return { ...found, before, lead: before.slice(-LEAD_MOST) };
  });
}

/** Matches LangChain's instructions for fields, which ask for a fence around the JSON. */
const FENCED = /\bleading and trailing\b[^\n]{0,20}```/i;
const JSON_NAMED = /json/i;
/** Matches a request for JSON, in a prompt that shows none. */
const ASKED =
  /\b(?:respond|return|reply|answer|output|produce|generate|provide|give|format(?:ted)?|write|valid|only|must be)\b[^.\n]{0,80}\bjson\b|\bjson\b[^.\n]{0,40}\b(?:only|format|object|array|output|response)\b|\bjson\s*(?:格式|形式|对象)|\bjson\b.{0,20}:\s*$/i;

/** Returns the last JSON Schema, or null. */
function lastSchema(candidates: readonly Candidate[]): Schema | null {
  for (const { value } of candidates.toReversed()) {
    const schema = Array.isArray(value) ? null : schemaIn(value);
    if (schema !== null) return schema;
  }
  return null;
}

/** Returns the schema of an example, of keys that words name, or of any object. Returns null if no JSON is requested. */
function schemaInWords(texts: readonly string[], candidates: readonly Candidate[]): Schema | null {
  if (!texts.some((text) => JSON_NAMED.test(text))) return null;
  const named = lastExample(candidates, (lead) => SHOWN.test(lead)) ?? texts.map(keysInWords).findLast(isThere);
  if (isThere(named)) return named;
  return texts.some(asks) ? (lastExample(candidates, () => true) ?? ANY_OBJECT) : null;
}

const isThere = (schema: Schema | null | undefined) => schema !== null && schema !== undefined;

const asks = (text: string) => ASKED.test(text);

/** Matches words before JSON that is input, not an example of an answer. */
const DATA =
  /\b(?:input|context|data|document|text|passage|question|query|statement|claim|history|(?:actual|expected|model) (?:output|response|answer))s?\s*["'`*]*\s*:\s*["'`\s]*$/i;
/** Matches words before JSON that is an example of an answer. */
const SHOWN =
  /\b(?:format|schema|structure|shape|output|respon[ds]|respond|return|answer|reply|(?<!`)json|example|like this|follow|fields?)/i;

/**
 * Finds the last JSON object, or list of objects, in the prompt that is an example of the wanted answer, and returns a schema for
 * its shape. `like` decides by the text before it. Returns null if there is none.
 */
function lastExample(candidates: readonly Candidate[], like: (lead: string) => boolean): Schema | null {
  const example = candidates.findLast(({ value, lead }) => {
    const first = Array.isArray(value) ? value[0] : value;
    return isFoundObject(first!) && Object.keys(first).length > 0 && !DATA.test(lead) && like(lead);
  });
  return example === undefined ? null : schemaOfExample(example.value);
}

/**
 * Match words that name keys: `JSON format, with the "score" and "reason" key`, `a JSON with two keys: 1) a "score" key …`
 * (deepeval), `a JSON object with keys name, age and city`, `the fields "label" and "score" as JSON`.
 */
const WITH = /\bjson\b[^\n]{0,120}?\bwith\b([^\n]{1,600})/i;
const KEYS = [
  WITH,
  /\bjson\b[^\n]{0,200}?\b(?:keys?|fields?|propert(?:y|ies))\b([^\n]{1,600})/i,
  /\b(?:keys?|fields?|propert(?:y|ies))\b([^\n]{1,300}?)\b(?:as|in)\b[^\n]{0,20}\bjson\b/i,
];
const QUOTED_KEY = /["'`]([A-Za-z_]\w{0,60})["'`]([^"'`]{0,80})/g;
/** Matches at least two names without quotes, after a word for keys. */
const BARE_KEYS =
  /(?:^|\b(?:keys?|fields?|propert(?:y|ies)))\s*(?:are|named|called)?\s*:?\s*(([A-Za-z_]\w{0,60})(?:\s*,\s*(?:and\s+)?[A-Za-z_]\w{0,60}|\s+and\s+[A-Za-z_]\w{0,60}){1,50})/i;

function keysInWords(text: string): Schema | null {
  for (const place of KEYS) {
    const words = place.exec(text)?.[1];
    if (words === undefined || (place === WITH && !/\b(?:key|field|propert)/i.test(words))) continue;
    const found = keysNamed(words);
    if (found.length === 0) continue;
    const properties = Object.fromEntries(found);
    return { type: "object", properties, required: Object.keys(properties), additionalProperties: false };
  }
  return null;
}

function keysNamed(words: string): (readonly [key: string, schema: Schema])[] {
  const quoted = [...words.matchAll(QUOTED_KEY)].map(([, key, about]) => [key!, typeOfKey(key!, about!)] as const);
  if (quoted.length > 0) return quoted;
  const list = BARE_KEYS.exec(words)?.[1] ?? "";
  const names = list.split(/\s*,\s*(?:and\s+)?|\s+and\s+/).filter((name) => name !== "");
  return names.map((name) => [name, typeOfKey(name, "")] as const);
}

function typeOfKey(key: string, about: string): Schema {
  const named = typeNamed(about);
  if (named !== null) return named;
  const isNumber = /score|count|rating|confidence|\d+\s*-\s*\d+/i.test(key + about);
  return isNumber ? { type: "integer", minimum: 0, maximum: 10 } : { type: "string" };
}

// ---- tools in a prompt

/** Calls the tools that a prompt describes, in the form that it requests. */
interface Caller {
  readonly names: readonly string[];
  /** Reports whether the object is a tool, or a tool's parameters. */
  describes(value: unknown): boolean;
  /** Draws calls of these tools, and returns their text. */
  write(names: readonly string[], draws: Draws): string;
}

/** A tool that a prompt describes. */
interface PromptTool {
  readonly name: string;
  readonly value: FoundJson["value"];
  /** JSON of the schema of its parameters, or null. */
  readonly parameters: string | null;
}

const CALL_OPENS = "<tool_call>";
const [FUNCTION, ARGUMENTS] = ["✿FUNCTION✿: ", "✿ARGS✿: "];

/** Reports whether a text is a call that `promptedWriter` wrote. */
export const isPromptedCall = (text: string): boolean => text.startsWith(CALL_OPENS) || text.startsWith(FUNCTION);

function callerOf(texts: readonly string[], candidates: readonly Candidate[]): Caller | null {
  const has = (mark: string) => texts.some((text) => text.includes(mark));
  const tools = has(CALL_OPENS) ? listedTools(candidates) : has(FUNCTION) ? describedTools(candidates) : [];
  if (tools.length === 0) return null;
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  const described = new Set<unknown>(tools.map(({ value }) => value));
  return {
    names: [...byName.keys()],
    describes: (value) => described.has(value),
    write(names, draws) {
      const calls = names.map((name) => byName.get(name)!);
      if (has(CALL_OPENS)) return writeCalls({ form: "hermes", text: "", spaced: true, calls }, draws);
      const [{ name, parameters }] = calls as [PromptTool];
      return `${FUNCTION}${name}\n${ARGUMENTS}${jsonText(argumentsOf(parameters, draws))}`;
    },
  };
}

/** Returns tools in the form of the templates of Qwen and Hermes: `{"type": "function", "function": {…}}`. */
function listedTools(candidates: readonly Candidate[]): PromptTool[] {
  return candidates.flatMap(({ value }) => {
    const shape = isFoundObject(value) && value.type === "function" ? value.function : null;
    if (!isFoundObject(shape!) || typeof shape.name !== "string") return [];
    return [{ name: shape.name, value, parameters: schemaJson(shape.parameters as FoundObject | undefined) }];
  });
}

/** Returns tools in the older form of Qwen-Agent: `name: description Parameters: {…}`. */
function describedTools(candidates: readonly Candidate[]): PromptTool[] {
  return candidates.flatMap(({ value, before }) => {
    if (!/(?:Parameters: |输入参数：)$/.test(before)) return [];
    const name = [...before.matchAll(/^([\w.-]{1,128}): /gm)].at(-1)?.[1];
    return name === undefined ? [] : [{ name, value, parameters: schemaJson(value) }];
  });
}

function schemaJson(value: FoundJson["value"] | undefined): string | null {
  const schema = value === undefined || Array.isArray(value) ? null : schemaIn(value);
  return schema && JSON.stringify(schema);
}

/** Returns the names of the tools to call. */
function calledOf({ names }: Caller, calls: PromptedJson["calls"], draws: Draws): readonly string[] {
  if (typeof calls !== "number") return calls.filter((name) => names.includes(name));
  return draws.chance(calls) ? [draws.pick(names)] : [];
}
