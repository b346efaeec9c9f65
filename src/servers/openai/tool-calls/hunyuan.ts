/**
 * Tool calls as Hunyuan V3 writes them: `<tool_calls>`, and in it `<tool_call>f<tool_sep>` with pairs of `<arg_key>` and
 * `<arg_value>`. Follows vLLM 0.33, `tool_parsers/hy_v3_tool_parser.py`: the name leaves first, then each part of the arguments.
 */
import { dumpsString, pythonDumps } from "../../pydantic/dumps.ts";
import { parsePython } from "../../pydantic/json.ts";
import { PythonFloat, type PythonValue, toInt } from "../../pydantic/value.ts";
import { isPlain } from "./growing-text.ts";
import type { CallDelta, Delta, Extracted, ToolCall, ToolParser, ToolUse } from "./output.ts";
import { deserialized } from "./poolside.ts";

const BLOCK_START = "<tool_calls>";
const BLOCK_END = "</tool_calls>";
const START = "<tool_call>";
const END = "</tool_call>";
const SEPARATOR = "<tool_sep>";
export const HUNYUAN_MARKS = [
  ...[BLOCK_START, BLOCK_END, START, END, SEPARATOR],
  ...["<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
];
const PAIR = /<arg_key>([\s\S]*?)<\/arg_key>\s*<arg_value>([\s\S]*?)<\/arg_value>/g;
const OPEN_PAIR = /<arg_key>([\s\S]*?)<\/arg_key>(?:[\s\S]*?<arg_value>([\s\S]*))?/;

export class HunyuanParser implements ToolParser {
  readonly engineBased = false;
  readonly #newId: () => string;
  readonly #use: ToolUse;
  #text = "";
  #held = "";
  /** Calls may follow: the mark of their block has come. */
  #inBlock = false;
  #index = -1;
  /** The call whose arguments come; null: none. */
  #name: string | null = null;
  #members = new Map<string, PythonValue>();
  /** Characters of the arguments' JSON that were sent. */
  #sent = 0;
  /** The arguments end in a text that was sent so far, so that a plain piece only adds its own characters. */
  #appends = false;

  constructor(newId: () => string, use: ToolUse) {
    this.#newId = newId;
    this.#use = use;
  }

  push(text: string): Delta | null {
    this.#text += text;
    this.#inBlock ||= this.#text.includes(BLOCK_START);
    if (!this.#inBlock) return { content: text, calls: [] };
    const parts = text.split(BLOCK_START);
    const content = parts.length > 1 ? parts[0] || null : null;
    this.#held += parts.at(-1)!;
    if (this.#appends && isPlain(text)) {
      this.#sent += text.length;
      return { calls: [{ index: this.#index, arguments: text }] };
    }
    this.#appends = false;
    if (this.#text.includes(END + BLOCK_END) && !this.#held.includes(END)) this.#held += END + BLOCK_END;
    const said = content === null ? {} : { content };
    if (this.#name !== null) return this.#arguments([], content);
    const start = this.#held.indexOf(START);
    const separator = this.#held.indexOf(SEPARATOR);
    if (start < 0 || separator < 0) {
      this.#held = start < 0 ? (content === null ? "" : this.#held) : this.#held.slice(start);
      return content === null ? null : { ...said, calls: [] };
    }
    this.#name = this.#held.slice(start + START.length, separator).trim();
    this.#held = this.#held.slice(separator + SEPARATOR.length);
    this.#index++;
    const named: CallDelta = { id: this.#newId(), typed: true, index: this.#index, name: this.#name };
    if (!this.#held.includes(END)) return { content, calls: [named] };
    return this.#arguments([named], content);
  }

  /** `calls`: the delta with the name, if it came with this output. */
  #arguments(calls: CallDelta[], content: string | null): Delta | null {
    const end = this.#held.indexOf(END);
    const text = end < 0 ? this.#held : this.#held.slice(0, end);
    for (const [, key, value] of text.matchAll(PAIR)) {
      const name = key!.trim();
      if (!this.#members.has(name)) this.#members.set(name, this.#valueOf(value!, name));
    }
    const json = end < 0 ? this.#openJson(text) : pythonDumps(this.#members);
    const more = json.slice(this.#sent);
    this.#sent = Math.max(this.#sent, json.length);
    this.#appends = end < 0 && !json.endsWith('"') && more !== "" && isPlain(more.slice(-1)) && this.#endsInText(text);
    const named = calls[0];
    if (more !== "" && named !== undefined) named.arguments = more;
    else if (more !== "") calls.push({ index: this.#index, arguments: more });
    if (end >= 0) {
      this.#name = null;
      this.#members = new Map();
      this.#sent = 0;
      this.#held = this.#held.slice(end + END.length);
      calls.push(...this.#rest());
    }
    if (calls.length === 0) return null;
    return { ...(named === undefined ? {} : { content }), calls };
  }

  /** JSON of the values so far, and of a text that is under way; without its end. */
  #openJson(text: string): string {
    const pairs = [...this.#members].map(([key, value]) => `${dumpsString(key)}: ${pythonDumps(value)}`);
    const [, key, value] = OPEN_PAIR.exec(lastOpen(text)) ?? [];
    if (key !== undefined && value !== undefined && this.#isText(key.trim()))
      pairs.push(`${dumpsString(key.trim())}: "${escaped(value)}`);
    return `{${pairs.join(", ")}`;
  }

  #endsInText(text: string): boolean {
    const [, key, value] = OPEN_PAIR.exec(lastOpen(text)) ?? [];
    return key !== undefined && value !== undefined && this.#isText(key.trim());
  }

  /** Calls that are complete already. */
  #rest(): CallDelta[] {
    const calls: CallDelta[] = [];
    for (;;) {
      const start = this.#held.indexOf(START);
      const end = start < 0 ? -1 : this.#held.indexOf(END, start);
      if (end < 0) return calls;
      const whole = this.#held.slice(start, end + END.length);
      this.#held = this.#held.slice(end + END.length);
      for (const { id, name, arguments: given } of this.#callsIn(whole))
        calls.push({ id, typed: true, index: ++this.#index, name, arguments: given });
    }
  }

  extract(text: string): Extracted {
    const start = text.indexOf(BLOCK_START);
    if (start < 0) return { called: false, calls: [], content: text };
    return { called: true, calls: this.#callsIn(text), content: text.slice(0, start) || null };
  }

  #callsIn(text: string): ToolCall[] {
    const closed = [...text.matchAll(/<tool_call>([\s\S]*?)<tool_sep>([\s\S]*?)<\/tool_call>/g)];
    const rest = closed.length === 0 ? text : text.split(END).at(-1)!;
    const open = /<tool_call>([\s\S]*?)<tool_sep>([\s\S]*)/.exec(rest);
    return [...closed, ...(open === null ? [] : [open])].map(([, written, given]) => {
      const name = written!.trim();
      const members = [...given!.trim().matchAll(PAIR)].map(
        ([, key, value]) => [key!, this.#valueOf(value!, key!, name)] as const,
      );
      return { id: this.#newId(), name, arguments: pythonDumps(new Map(members)) };
    });
  }

  #isText(key: string): boolean {
    const types = this.#typesOf(key, this.#name ?? "");
    return types.size === 1 && types.has("string");
  }

  #valueOf(text: string, key: string, name: string = this.#name ?? ""): PythonValue {
    const types = this.#typesOf(key, name);
    const lower = text.toLowerCase();
    if (types.has("boolean") && (lower === "true" || lower === "false")) return lower === "true";
    const isWhole = /^\s*[+-]?\d+(?:_\d+)*\s*$/.test(text);
    const whole = () => toInt(BigInt(text.trim().replaceAll("_", "").replace(/^\+/, "")));
    if (types.has("integer") && isWhole) return whole();
    if (types.has("number") && isWhole) return whole();
    if (types.has("number") && /[.eE]/.test(text) && text.trim() !== "" && Number.isFinite(Number(text)))
      return new PythonFloat(Number(text));
    if ([...types].some((type) => !["string", "boolean", "integer", "number"].includes(type)))
      try {
        return parsePython(text);
      } catch {
        // Text that is no JSON may be a string.
      }
    return types.has("string") ? text : deserialized(text);
  }

  /** Types of a parameter, except for null. */
  #typesOf(key: string, name: string): Set<string> {
    const found = this.#use.tools.find((tool) => tool.name === name)?.parameters as {
      readonly properties?: Readonly<Record<string, Schema>>;
    } | null;
    const { properties = {} } = found ?? {};
    const schema: Schema = Object.hasOwn(properties, key) ? (properties[key] ?? {}) : {};
    const { type, anyOf, oneOf } = schema;
    const types = Array.isArray(type)
      ? type
      : type !== undefined
        ? [type]
        : (anyOf ?? oneOf ?? [{}]).map((one) => one?.type ?? "string");
    return new Set(types.map(normalizedType).filter((one) => one !== "null"));
  }
}

interface Schema {
  readonly type?: unknown;
  readonly anyOf?: readonly (Schema | undefined)[];
  readonly oneOf?: readonly (Schema | undefined)[];
}

const ALIASES: Readonly<Record<string, string>> = {
  ...{ str: "string", text: "string", varchar: "string", char: "string", enum: "string" },
  ...{ bool: "boolean", binary: "boolean", double: "number", list: "array", dict: "object", map: "object" },
};

function normalizedType(type: unknown): string {
  const name = String(type);
  if (Object.hasOwn(ALIASES, name)) return ALIASES[name]!;
  if (/^(?:int|uint|long|short|unsigned)/i.test(name)) return "integer";
  return /^(?:num|float)/i.test(name) ? "number" : name;
}

/** The text behind the last complete pair. */
function lastOpen(text: string): string {
  let end = 0;
  for (const match of text.matchAll(PAIR)) end = match.index + match[0].length;
  return text.slice(end);
}

/** Without the escapes of other control characters, as there. */
function escaped(text: string): string {
  return text
    .replaceAll("\\", "\\\\")
    .replaceAll('"', '\\"')
    .replaceAll("\n", "\\n")
    .replaceAll("\r", "\\r")
    .replaceAll("\t", "\\t");
}
