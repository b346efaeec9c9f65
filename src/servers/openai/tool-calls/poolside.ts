/**
 * Reads tool calls in the format of Poolside's models: `<tool_call>f` and pairs of `<arg_key>` and `<arg_value>`. Like vLLM 0.33
 * (`tool_parsers/poolside_v1_tool_parser.py`), it sends strings as they come, and other values when they are complete.
 */
import { dumpsString, pythonDumps } from "../../pydantic/dumps.ts";
import { parsePython } from "../../pydantic/json.ts";
import type { PythonValue } from "../../pydantic/value.ts";
import { readPrefix } from "./json-prefix.ts";
import type { CallDelta, Delta, ExtractedCalls, ToolCall, ToolParser, ToolUse } from "./output.ts";
import { addCall, noCalls, overlap, propertiesOf } from "./parser-parts.ts";
import { readLiteral } from "./python-literal.ts";

const START = "<tool_call>";
const END = "</tool_call>";
const KEY = "<arg_key>";
const KEY_END = "</arg_key>";
const VALUE = "<arg_value>";
const VALUE_END = "</arg_value>";

/** The state of a tool call. */
interface OpenCall {
  readonly index: number;
  /** Name of the called tool. null until it is complete. */
  name: string | null;
  /** The parameter whose value follows. null: a key follows. */
  key: string | null;
  /** True inside the value of a string. */
  inText: boolean;
  /** Names of the parameters so far. */
  readonly keys: Set<string>;
  /** The part of the arguments' JSON that was sent. */
  sent: string;
}

export class PoolsideParser implements ToolParser {
  readonly engineBased = false;
  /** Text that is not read yet. */
  #held = "";
  /** The current call. null: outside of calls. */
  #open: OpenCall | null = null;
  /** The last call that has begun. */
  #last: OpenCall | null = null;
  #index = -1;

  constructor(
    private readonly newId: () => string,
    private readonly use: ToolUse,
  ) {}

  push(text: string): Delta | null {
    if (this.use.tools.length === 0) return text === "" ? null : { content: text, calls: [] };
    this.#held += text;
    const parts: OutputParts = { content: null, calls: [] };
    while (this.#step(parts));
    if (parts.content === null && parts.calls.length === 0) return null;
    return { content: parts.content, calls: parts.calls };
  }

  /** Returns the text that completes the JSON sent so far. */
  unstreamed(): string {
    const sent = this.#last?.sent ?? "";
    if (this.#last === null) return "";
    try {
      const whole = sent === "" ? "{}" : pythonDumps(readPrefix(sent, 0, true).value);
      return whole.startsWith(sent) ? whole.slice(sent.length) : "";
    } catch {
      return "";
    }
  }

  /** Reads the next part. Returns false if it is incomplete. */
  #step(parts: OutputParts): boolean {
    if (this.#open === null) return this.#content(parts);
    const open = this.#open;
    if (open.name === null) return this.#name(open, parts);
    if (open.inText) return this.#textValue(open, parts);
    return open.key === null ? this.#nextKey(open, parts) : this.#value(open, open.key, parts);
  }

  #content(parts: OutputParts): boolean {
    const start = this.#held.indexOf(START);
    const end = start < 0 ? this.#held.length - overlap(this.#held, START) : start;
    if (end > 0) parts.content = (parts.content ?? "") + this.#held.slice(0, end);
    this.#held = this.#held.slice(start < 0 ? end : end + START.length);
    if (start < 0) return false;
    this.#index++;
    this.#open = { index: this.#index, name: null, key: null, inText: false, keys: new Set(), sent: "" };
    this.#last = this.#open;
    return true;
  }

  #name(open: OpenCall, parts: OutputParts): boolean {
    const ends = ["\n", KEY, END].map((mark) => this.#held.indexOf(mark)).filter((at) => at >= 0);
    if (ends.length === 0) return false;
    const cut = Math.min(...ends);
    const name = this.#held.slice(0, cut).trim();
    if (name === "" && this.#held.startsWith(END, cut)) {
      // A call without a name is ignored.
      this.#held = this.#held.slice(cut + END.length);
      this.#open = null;
      this.#index--;
      return true;
    }
    this.#held = this.#held.slice(this.#held[cut] === "\n" ? cut + 1 : cut);
    open.name = name;
    parts.calls.push({ id: this.newId(), typed: true, index: open.index, name, arguments: "" });
    return true;
  }

  #nextKey(open: OpenCall, parts: OutputParts): boolean {
    const end = this.#held.indexOf(END);
    const key = this.#held.indexOf(KEY);
    if (end >= 0 && (key < 0 || end < key)) {
      this.#held = this.#held.slice(end + END.length);
      this.#open = null;
      send(parts, open, open.keys.size === 0 ? "{}" : "}");
      return true;
    }
    const keyEnd = key < 0 ? -1 : this.#held.indexOf(KEY_END, key);
    if (keyEnd < 0) return false;
    open.key = this.#held.slice(key + KEY.length, keyEnd);
    this.#held = this.#held.slice(keyEnd + KEY_END.length);
    return true;
  }

  /** Reads a complete value, or the beginning of a string. `rawKey`: its parameter's name with white space. */
  #value(open: OpenCall, rawKey: string, parts: OutputParts): boolean {
    const from = this.#held.indexOf(VALUE);
    if (from < 0) return false;
    const key = rawKey.trim();
    const isText = this.#isText(open.name!, key);
    const end = isText ? -1 : this.#held.indexOf(VALUE_END, from);
    if (!isText && end < 0) return false;
    const isNew = key !== "" && !open.keys.has(key);
    const raw = this.#held.slice(from + VALUE.length, end < 0 ? undefined : end);
    this.#held = isText ? raw : this.#held.slice(end + VALUE_END.length);
    if (isText && open.keys.has(key)) open.key = null;
    if (!isText) open.key = null;
    if (isText ? open.keys.has(key) : !isNew) return true;
    const head = `${open.keys.size === 0 ? "{" : ", "}${dumpsString(key)}: `;
    open.keys.add(key);
    open.inText = isText;
    send(parts, open, isText ? `${head}"` : head + pythonDumps(parseValue(raw.trim())));
    return true;
  }

  #textValue(open: OpenCall, parts: OutputParts): boolean {
    const end = this.#held.indexOf(VALUE_END);
    const safe = end < 0 ? this.#held.length - overlap(this.#held, VALUE_END) : end;
    const escaped = dumpsString(this.#held.slice(0, safe)).slice(1, -1);
    this.#held = this.#held.slice(end < 0 ? safe : end + VALUE_END.length);
    if (end >= 0) {
      open.inText = false;
      open.key = null;
    }
    if (end >= 0 || escaped !== "") send(parts, open, end < 0 ? escaped : `${escaped}"`);
    return end >= 0;
  }

  /** Reports whether a parameter is a string by its schema. */
  #isText(name: string, key: string): boolean {
    const properties = propertiesOf(this.use, name) as Readonly<
      Record<string, { readonly type?: unknown } | undefined>
    >;
    return Object.hasOwn(properties, key) && properties[key]?.type === "string";
  }

  extract(text: string): ExtractedCalls {
    const calls = [...text.matchAll(/<tool_call>([\s\S]*?)<\/tool_call>/g)].flatMap(([, inner]): ToolCall[] => {
      const found = /^\s*([^\n<]+?)\s*\n?\s*(<arg_key>[\s\S]*?)?$/.exec(inner!);
      if (found === null) return [];
      const name = found[1]!.trim();
      const members = new Map<string, PythonValue>();
      for (const [, key, value] of (found[2] ?? "").matchAll(PAIR)) {
        const isText = this.#isText(name, key!.trim());
        members.set(key!.trim(), isText ? value! : parseValue(value!.trim()));
      }
      return [{ id: this.newId(), name, arguments: pythonDumps(members) }];
    });
    if (calls.length === 0) return noCalls(text);
    const content = text.slice(0, text.indexOf(START));
    return { called: true, calls, content: content.trim() === "" ? null : content };
  }
}

const PAIR = /<arg_key>([\s\S]*?)<\/arg_key>\s*<arg_value>([\s\S]*?)<\/arg_value>/g;

/** The content and calls that one output adds. */
interface OutputParts {
  content: string | null;
  readonly calls: CallDelta[];
}

/** Adds a piece of a call's JSON to the output's deltas. */
function send(parts: OutputParts, call: OpenCall, fragment: string): void {
  call.sent += fragment;
  addCall(parts.calls, { index: call.index, arguments: fragment });
}

/** Parses JSON or a Python literal. Returns other text unchanged. */
export function parseValue(text: string): PythonValue {
  for (const read of [parsePython, readLiteral])
    try {
      return read(text);
    } catch {
      // The next reader may accept the text.
    }
  return text;
}
