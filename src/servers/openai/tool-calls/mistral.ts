/**
 * Reads tool calls in the format of Mistral's tokenizers before version 11: `[TOOL_CALLS][{"name": …, "arguments": {…}}]`. Like
 * vLLM 0.33 (`parser/mistral.py`), it sends arguments as they come and the type with each delta. Ids have nine characters.
 */

import { parsedJson } from "../../../base/json-object.ts";
import { pythonDumps } from "../../pydantic/dumps.ts";
import { get, isDict, isList, type PythonValue } from "../../pydantic/value.ts";
import { readPrefix } from "./json-prefix.ts";
import {
  type CallDelta,
  type Delta,
  type ExtractedCalls,
  forced,
  type ToolCall,
  type ToolParser,
  type ToolUse,
} from "./output.ts";
import { noCalls, overlap } from "./parser-parts.ts";

export const TAG = "[TOOL_CALLS]";

/** The part of the list of calls to which the next character belongs. */
type Place = "start" | "list" | "object" | "arguments" | "done";

export class MistralParser implements ToolParser {
  readonly engineBased = true;
  /** Text that may be the beginning of the tag. */
  #held = "";
  /** True once the list of calls has begun. */
  #started = false;
  /** True if the list of calls is malformed. Nothing is sent afterwards. */
  #broken = false;
  #place: Place = "start";
  /** True if the model wrote the current call without a list around it. */
  #bare = false;
  /** Depth of nested lists and objects in the arguments or another member of the call. */
  #depth = 0;
  /** Text of the current string. null: outside of strings. */
  #string: string | null = null;
  #escaped = false;
  /** The key in the call whose value follows. null: a key follows. */
  #key: string | null = null;
  #index = -1;
  /** The call's id until it was sent. */
  #id: string | null = null;
  /** The delta of the current call and output. `#touched`: something was added to it. */
  #call: CallDelta | null = null;
  #touched = false;

  constructor(
    private readonly newId: () => string,
    private readonly use: ToolUse,
    /** True if the tag is not a single token, so that a part of it must be withheld. */
    private readonly spelled: boolean,
  ) {}

  push(text: string): Delta | null {
    let rest = this.#held + text;
    this.#held = "";
    let content = "";
    const tag = rest.indexOf(TAG);
    if (tag >= 0) {
      this.#started = true;
      content = rest.slice(0, tag);
      rest = rest.slice(tag).replaceAll(TAG, "");
    } else if (!this.#started && this.spelled && rest !== "") {
      const keep = overlap(rest, TAG);
      this.#held = rest.slice(rest.length - keep);
      rest = rest.slice(0, rest.length - keep);
      // If the tag is a single token, vLLM's parser sends nothing at this point, either.
      if (rest === "") return null;
    }
    if (!this.#started && forced(this.use) && rest !== "") {
      this.#started = true;
      rest += this.#held;
      this.#held = "";
    }
    if (!this.#started) return { content: rest, calls: [] };
    if (this.#broken) return null;
    const calls: CallDelta[] = [];
    this.#call = null;
    this.#touched = false;
    const after = this.#read(rest, calls);
    if (this.#broken) return null;
    this.#put(calls);
    const allContent = content + after;
    if (allContent === "" && calls.length === 0) return this.#place === "done" ? { calls: [] } : null;
    return allContent === "" ? { calls } : { content: allContent, calls };
  }

  finish(): Delta | null {
    const rest = this.#held;
    this.#held = "";
    return rest === "" ? null : { content: rest, calls: [] };
  }

  /** Reads calls. Returns the text after the list of calls. */
  #read(text: string, calls: CallDelta[]): string {
    for (let at = 0; at < text.length; at++) {
      if (this.#place === "done") return text.slice(at);
      this.#take(text[at]!, calls);
      if (this.#broken) return "";
    }
    return "";
  }

  #take(character: string, calls: CallDelta[]): void {
    if (this.#place === "arguments") this.#add("arguments", character);
    if (this.#string !== null) {
      this.#inString(character);
      return;
    }
    if (character === '"') {
      this.#string = "";
      return;
    }
    if (character === "{" || character === "[") this.#opens(character, calls);
    else if (character === "}" || character === "]") this.#closes();
    else if (this.#place === "object" && this.#depth === 0 && character === ",") this.#key = null;
    else if ((this.#place === "start" || this.#place === "list") && !/[\s,]/.test(character)) this.#broken = true;
  }

  #inString(character: string): void {
    if (!this.#escaped && character === '"') {
      const text = this.#string!;
      this.#string = null;
      this.#stringEnded(text);
      return;
    }
    this.#escaped = !this.#escaped && character === "\\";
    this.#string += character;
  }

  /** Handles the end of a string, which may be a key or a value of the call. */
  #stringEnded(raw: string): void {
    if (this.#place !== "object" || this.#depth > 0) return;
    const text = unescaped(raw);
    if (this.#key === null) this.#key = text;
    else if (this.#key === "name") this.#add("name", text);
    else if (this.#key === "arguments") this.#add("arguments", text);
  }

  #opens(bracket: string, calls: CallDelta[]): void {
    if (this.#place === "arguments" || (this.#place === "object" && this.#key !== "arguments")) this.#depth++;
    else if (this.#place === "object" && (this.#depth > 0 || bracket === "[")) this.#depth++;
    else if (this.#place === "object") {
      this.#place = "arguments";
      this.#add("arguments", "{");
    } else if (bracket === "[" && this.#place === "start") this.#place = "list";
    else if (bracket === "{") {
      this.#bare = this.#place === "start";
      this.#place = "object";
      this.#key = null;
      this.#put(calls);
      this.#index++;
      this.#id = this.newId();
    } else this.#broken = true;
  }

  #closes(): void {
    if (this.#depth > 0) this.#depth--;
    else if (this.#place === "arguments") this.#place = "object";
    else if (this.#place === "object") this.#place = this.#bare ? "done" : "list";
    else this.#place = "done";
  }

  #add(field: "name" | "arguments", text: string): void {
    this.#call ??= { index: this.#index, typed: true };
    const before = field === "arguments" ? (this.#call.arguments ?? "") : "";
    this.#call = { ...this.#call, [field]: before + text };
    this.#touched = true;
  }

  /** Adds the current delta to the output's deltas. */
  #put(calls: CallDelta[]): void {
    if (this.#touched) {
      calls.push(this.#id === null ? this.#call! : { ...this.#call!, id: this.#id });
      this.#id = null;
    }
    this.#call = null;
    this.#touched = false;
  }

  extract(text: string): ExtractedCalls {
    if (this.use.choice === "none" && this.use.tools.length > 0) return noCalls(text);
    const [before, ...segments] = text.split(TAG);
    if (segments.length === 0 && !forced(this.use)) return noCalls(text);
    const list = segments.length === 0 ? text.trim() : (segments.map((segment) => segment.trim()).find(Boolean) ?? "");
    const calls = callsOf(list).map(([name, args]): ToolCall => ({ id: this.newId(), name, arguments: args }));
    if (calls.length === 0) return noCalls(list);
    return { called: true, calls, content: segments.length > 0 && before!.trim() !== "" ? before! : null };
  }
}

/** Resolves the escapes of a JSON string. Returns it unchanged if they are invalid. */
const unescaped = (raw: string) => (parsedJson(`"${raw}"`) ?? raw) as string;

/** Returns name and arguments of each call in a whole text. */
function callsOf(text: string): [string, string][] {
  const parsed = parseWhole(text) ?? parseWhole(/\[{[\s\S]*}\]/.exec(text)?.[0] ?? "");
  const list = isDict(parsed) ? [parsed] : isList(parsed) ? parsed : [];
  return list.flatMap((call): [string, string][] => {
    if (!isDict(call)) return [];
    const name = get(call, "name");
    const args = get(call, "arguments");
    if (name === undefined && args === undefined) return [];
    const text = typeof args === "string" ? args : pythonDumps(args ?? new Map());
    return [[typeof name === "string" ? name : "", text]];
  });
}

/** Parses complete JSON. Returns undefined if it is malformed or incomplete. */
function parseWhole(text: string): PythonValue | undefined {
  try {
    const { value, complete } = readPrefix(text, 0, true);
    return complete ? value : undefined;
  } catch {
    return undefined;
  }
}
