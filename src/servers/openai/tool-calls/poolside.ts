/**
 * Tool calls as Poolside's models write them: `<tool_call>f` and pairs of `<arg_key>` and `<arg_value>`. Follows vLLM 0.33,
 * `tool_parsers/poolside_v1_tool_parser.py`: texts leave as they come, other values when they are complete.
 */
import { dumpsString, pythonDumps } from "../../pydantic/dumps.ts";
import { parsePython } from "../../pydantic/json.ts";
import type { PythonValue } from "../../pydantic/value.ts";
import { overlap } from "./hermes.ts";
import { readPrefix } from "./json-prefix.ts";
import type { CallDelta, Delta, Extracted, ToolCall, ToolParser, ToolUse } from "./output.ts";
import { readLiteral } from "./python-literal.ts";

const START = "<tool_call>";
const END = "</tool_call>";
const KEY = "<arg_key>";
const KEY_END = "</arg_key>";
const VALUE = "<arg_value>";
const VALUE_END = "</arg_value>";

/** A call under way. */
interface Open {
  readonly index: number;
  /** null: it has not come. */
  name: string | null;
  /** The parameter whose value comes next; null: none. */
  key: string | null;
  /** The value of a text is under way. */
  inText: boolean;
  readonly keys: Set<string>;
  /** JSON of the arguments that was sent. */
  sent: string;
}

export class PoolsideParser implements ToolParser {
  readonly engineBased = false;
  readonly #newId: () => string;
  readonly #use: ToolUse;
  #held = "";
  #open: Open | null = null;
  /** The last call that began. */
  #last: Open | null = null;
  #index = -1;

  constructor(newId: () => string, use: ToolUse) {
    this.#newId = newId;
    this.#use = use;
  }

  push(text: string): Delta | null {
    if (this.#use.tools.length === 0) return text === "" ? null : { content: text, calls: [] };
    this.#held += text;
    const made: Made = { content: null, calls: [] };
    while (this.#step(made));
    if (made.content === null && made.calls.length === 0) return null;
    return { content: made.content, calls: made.calls };
  }

  /** What the JSON so far lacks of a whole. */
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

  /** Reads the next part. Returns false if it has not come. */
  #step(made: Made): boolean {
    if (this.#open === null) return this.#content(made);
    const open = this.#open;
    if (open.name === null) return this.#name(open, made);
    if (open.inText) return this.#textValue(open, made);
    return open.key === null ? this.#nextKey(open, made) : this.#value(open, open.key, made);
  }

  #content(made: Made): boolean {
    const start = this.#held.indexOf(START);
    const end = start < 0 ? this.#held.length - overlap(this.#held, START) : start;
    if (end > 0) made.content = (made.content ?? "") + this.#held.slice(0, end);
    this.#held = this.#held.slice(start < 0 ? end : end + START.length);
    if (start < 0) return false;
    this.#index++;
    this.#open = { index: this.#index, name: null, key: null, inText: false, keys: new Set(), sent: "" };
    this.#last = this.#open;
    return true;
  }

  #name(open: Open, made: Made): boolean {
    const ends = ["\n", KEY, END].map((mark) => this.#held.indexOf(mark)).filter((at) => at >= 0);
    if (ends.length === 0) return false;
    const cut = Math.min(...ends);
    const name = this.#held.slice(0, cut).trim();
    if (name === "" && this.#held.startsWith(END, cut)) {
      // An empty call is none.
      this.#held = this.#held.slice(cut + END.length);
      this.#open = null;
      this.#index--;
      return true;
    }
    this.#held = this.#held.slice(this.#held[cut] === "\n" ? cut + 1 : cut);
    open.name = name;
    made.calls.push({ id: this.#newId(), typed: true, index: open.index, name, arguments: "" });
    return true;
  }

  #nextKey(open: Open, made: Made): boolean {
    const end = this.#held.indexOf(END);
    const key = this.#held.indexOf(KEY);
    if (end >= 0 && (key < 0 || end < key)) {
      this.#held = this.#held.slice(end + END.length);
      this.#open = null;
      says(made, open, open.keys.size === 0 ? "{}" : "}");
      return true;
    }
    const keyEnd = key < 0 ? -1 : this.#held.indexOf(KEY_END, key);
    if (keyEnd < 0) return false;
    open.key = this.#held.slice(key + KEY.length, keyEnd);
    this.#held = this.#held.slice(keyEnd + KEY_END.length);
    return true;
  }

  #value(open: Open, written: string, made: Made): boolean {
    const from = this.#held.indexOf(VALUE);
    if (from < 0) return false;
    const key = written.trim();
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
    says(made, open, isText ? `${head}"` : head + pythonDumps(deserialized(raw.trim())));
    return true;
  }

  #textValue(open: Open, made: Made): boolean {
    const end = this.#held.indexOf(VALUE_END);
    const safe = end < 0 ? this.#held.length - overlap(this.#held, VALUE_END) : end;
    const escaped = dumpsString(this.#held.slice(0, safe)).slice(1, -1);
    this.#held = this.#held.slice(end < 0 ? safe : end + VALUE_END.length);
    if (end >= 0) {
      open.inText = false;
      open.key = null;
    }
    if (end >= 0 || escaped !== "") says(made, open, end < 0 ? escaped : `${escaped}"`);
    return end >= 0;
  }

  #isText(name: string, key: string): boolean {
    const found = this.#use.tools.find((tool) => tool.name === name)?.parameters as {
      readonly properties?: Readonly<Record<string, { readonly type?: unknown } | undefined>>;
    } | null;
    const { properties = {} } = found ?? {};
    return Object.hasOwn(properties, key) && properties[key]?.type === "string";
  }

  extract(text: string): Extracted {
    const nothing = { called: false, calls: [], content: text };
    const calls = [...text.matchAll(/<tool_call>([\s\S]*?)<\/tool_call>/g)].flatMap(([, inner]): ToolCall[] => {
      const found = /^\s*([^\n<]+?)\s*\n?\s*(<arg_key>[\s\S]*?)?$/.exec(inner!);
      if (found === null) return [];
      const name = found[1]!.trim();
      const members = new Map<string, PythonValue>();
      for (const [, key, value] of (found[2] ?? "").matchAll(PAIR)) {
        const isText = this.#isText(name, key!.trim());
        members.set(key!.trim(), isText ? value! : deserialized(value!.trim()));
      }
      return [{ id: this.#newId(), name, arguments: pythonDumps(members) }];
    });
    if (calls.length === 0) return nothing;
    const content = text.slice(0, text.indexOf(START));
    return { called: true, calls, content: content.trim() === "" ? null : content };
  }
}

const PAIR = /<arg_key>([\s\S]*?)<\/arg_key>\s*<arg_value>([\s\S]*?)<\/arg_value>/g;

/** What one output has brought. */
interface Made {
  content: string | null;
  readonly calls: CallDelta[];
}

function says(made: Made, call: Open, fragment: string): void {
  const { index } = call;
  call.sent += fragment;
  const same = made.calls.find((one) => one.index === index);
  if (same === undefined) made.calls.push({ index, arguments: fragment });
  else same.arguments = (same.arguments ?? "") + fragment;
}

/** JSON, or a literal of Python, or the text as it is. */
export function deserialized(text: string): PythonValue {
  for (const read of [parsePython, readLiteral])
    try {
      return read(text);
    } catch {
      // The next one may read it.
    }
  return text;
}
