/**
 * Reads tool calls in the format of Hunyuan V3: a block `<tool_calls>` of `<tool_call>f<tool_sep>` with pairs of `<arg_key>` and
 * `<arg_value>`. Sends the name first, then parts of the arguments, like vLLM 0.33 (`tool_parsers/hy_v3_tool_parser.py`).
 */
import { dumpsString, pythonDumps } from "../../pydantic/dumps.ts";
import { PythonFloat, type PythonValue, toInt } from "../../pydantic/value.ts";
import { isPlain } from "./growing-text.ts";
import type { CallDelta, Delta, ExtractedCalls, ToolCall, ToolParser, ToolUse } from "./output.ts";
import { noCalls, propertiesOf, pythonJsonIn } from "./parser-parts.ts";
import { parseValue } from "./poolside.ts";

const BLOCK_START = "<tool_calls>";
const BLOCK_END = "</tool_calls>";
const START = "<tool_call>";
const END = "</tool_call>";
const SEPARATOR = "<tool_sep>";
export const HUNYUAN_MARKS = [
  ...[BLOCK_START, BLOCK_END, START, END, SEPARATOR],
  ...["<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
];
/** Matches a complete argument. `OPEN_PAIR` matches an argument whose value may be missing or incomplete. */
const PAIR = /<arg_key>([\s\S]*?)<\/arg_key>\s*<arg_value>([\s\S]*?)<\/arg_value>/g;
const OPEN_PAIR = /<arg_key>([\s\S]*?)<\/arg_key>(?:[\s\S]*?<arg_value>([\s\S]*))?/;

export class HunyuanParser implements ToolParser {
  readonly engineBased = false;
  /** The whole text so far. `#held`: the part of it that is not read yet. */
  #text = "";
  #held = "";
  /** True once the start of the block of calls was found. */
  #inBlock = false;
  /** Index of the last call. -1: no call yet. */
  #index = -1;
  /** Name of the call whose arguments are being read. null: none. */
  #name: string | null = null;
  /** The complete arguments of this call. */
  #members = new Map<string, PythonValue>();
  /** Number of characters of the arguments' JSON that were sent. */
  #sent = 0;
  /** True if an incomplete string at the end was fully sent. A piece without special characters is then sent at once. */
  #appends = false;

  constructor(
    private readonly newId: () => string,
    private readonly use: ToolUse,
  ) {}

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
    const ofContent = content === null ? {} : { content };
    if (this.#name !== null) return this.#arguments([], content);
    const start = this.#held.indexOf(START);
    const separator = this.#held.indexOf(SEPARATOR);
    if (start < 0 || separator < 0) {
      this.#held = start < 0 ? (content === null ? "" : this.#held) : this.#held.slice(start);
      return content === null ? null : { ...ofContent, calls: [] };
    }
    this.#name = this.#held.slice(start + START.length, separator).trim();
    this.#held = this.#held.slice(separator + SEPARATOR.length);
    this.#index++;
    const named: CallDelta = { id: this.newId(), typed: true, index: this.#index, name: this.#name };
    if (!this.#held.includes(END)) return { content, calls: [named] };
    return this.#arguments([named], content);
  }

  /** Reads arguments and makes their delta. `calls`: the delta with the name, if this output completed the name. */
  #arguments(calls: CallDelta[], content: string | null): Delta | null {
    const end = this.#held.indexOf(END);
    const text = end < 0 ? this.#held : this.#held.slice(0, end);
    for (const [, key, value] of text.matchAll(PAIR)) {
      const name = key!.trim();
      if (!this.#members.has(name)) this.#members.set(name, this.#valueOf(value!, name));
    }
    const json = end < 0 ? this.#openJson(text) : pythonDumps(this.#members);
    const unsent = json.slice(this.#sent);
    this.#sent = Math.max(this.#sent, json.length);
    this.#appends =
      end < 0 && !json.endsWith('"') && unsent !== "" && isPlain(unsent.slice(-1)) && this.#endsInText(text);
    const named = calls[0];
    if (unsent !== "" && named !== undefined) named.arguments = unsent;
    else if (unsent !== "") calls.push({ index: this.#index, arguments: unsent });
    if (end >= 0) {
      this.#name = null;
      this.#members = new Map();
      this.#sent = 0;
      this.#held = this.#held.slice(end + END.length);
      calls.push(...this.#furtherCalls());
    }
    if (calls.length === 0) return null;
    return { ...(named === undefined ? {} : { content }), calls };
  }

  /** Returns the JSON of the arguments so far, including an incomplete string, without the closing bracket. */
  #openJson(text: string): string {
    const pairs = [...this.#members].map(([key, value]) => `${dumpsString(key)}: ${pythonDumps(value)}`);
    const [, key, value] = OPEN_PAIR.exec(afterLastPair(text)) ?? [];
    if (key !== undefined && value !== undefined && this.#isText(key.trim()))
      pairs.push(`${dumpsString(key.trim())}: "${escapeText(value)}`);
    return `{${pairs.join(", ")}`;
  }

  /** Reports whether the arguments end in an incomplete string. */
  #endsInText(text: string): boolean {
    const [, key, value] = OPEN_PAIR.exec(afterLastPair(text)) ?? [];
    return key !== undefined && value !== undefined && this.#isText(key.trim());
  }

  /** Reads the complete calls in the text that is left. */
  #furtherCalls(): CallDelta[] {
    const calls: CallDelta[] = [];
    for (;;) {
      const start = this.#held.indexOf(START);
      const end = start < 0 ? -1 : this.#held.indexOf(END, start);
      if (end < 0) return calls;
      const whole = this.#held.slice(start, end + END.length);
      this.#held = this.#held.slice(end + END.length);
      for (const { id, name, arguments: json } of this.#callsIn(whole))
        calls.push({ id, typed: true, index: ++this.#index, name, arguments: json });
    }
  }

  extract(text: string): ExtractedCalls {
    const start = text.indexOf(BLOCK_START);
    if (start < 0) return noCalls(text);
    return { called: true, calls: this.#callsIn(text), content: text.slice(0, start) || null };
  }

  /** Reads all calls, of which the last may be incomplete. */
  #callsIn(text: string): ToolCall[] {
    const closed = [...text.matchAll(/<tool_call>([\s\S]*?)<tool_sep>([\s\S]*?)<\/tool_call>/g)];
    const rest = closed.length === 0 ? text : text.split(END).at(-1)!;
    const open = /<tool_call>([\s\S]*?)<tool_sep>([\s\S]*)/.exec(rest);
    return [...closed, ...(open === null ? [] : [open])].map(([, rawName, rawArguments]) => {
      const name = rawName!.trim();
      const members = [...rawArguments!.trim().matchAll(PAIR)].map(
        ([, key, value]) => [key!, this.#valueOf(value!, key!, name)] as const,
      );
      return { id: this.newId(), name, arguments: pythonDumps(new Map(members)) };
    });
  }

  /** Reports whether a parameter can only be a string. */
  #isText(key: string): boolean {
    const types = this.#typesOf(key, this.#name ?? "");
    return types.size === 1 && types.has("string");
  }

  /** Converts the text of an argument to a type in its schema. */
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
    const isOpen = [...types].some((type) => !["string", "boolean", "integer", "number"].includes(type));
    const value = isOpen ? pythonJsonIn(text) : undefined;
    // Text that is not JSON may be a string.
    if (value !== undefined) return value;
    return types.has("string") ? text : parseValue(text);
  }

  /** Returns the types of a parameter except null. */
  #typesOf(key: string, name: string): Set<string> {
    const properties = propertiesOf(this.use, name) as Readonly<Record<string, Schema>>;
    const schema: Schema = Object.hasOwn(properties, key) ? (properties[key] ?? {}) : {};
    const { type, anyOf, oneOf } = schema;
    const types = Array.isArray(type)
      ? type
      : type !== undefined
        ? [type]
        : (anyOf ?? oneOf ?? [{}]).map((choice) => choice?.type ?? "string");
    return new Set(types.map(normalizedType).filter((name) => name !== "null"));
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

/** Returns the text after the last complete argument. */
function afterLastPair(text: string): string {
  let end = 0;
  for (const match of text.matchAll(PAIR)) end = match.index + match[0].length;
  return text.slice(end);
}

/** Escapes a string like vLLM's parser, which leaves control characters other than `\n`, `\r` and `\t` unescaped. */
function escapeText(text: string): string {
  return text
    .replaceAll("\\", "\\\\")
    .replaceAll('"', '\\"')
    .replaceAll("\n", "\\n")
    .replaceAll("\r", "\\r")
    .replaceAll("\t", "\\t");
}
