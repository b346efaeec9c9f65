/**
 * Tool calls as Mistral writes them with tokenizers before version 11: `[TOOL_CALLS][{"name": …, "arguments": {…}}]`.
 * Follows vLLM 0.33, `parser/mistral.py`: arguments leave as they come, each delta with its type, ids of nine characters.
 */

import { pythonDumps } from "../../pydantic/dumps.ts";
import { get, isDict, isList, type PythonValue } from "../../pydantic/value.ts";
import { overlap } from "./hermes.ts";
import { readPrefix } from "./json-prefix.ts";
import {
  type CallDelta,
  type Delta,
  type Extracted,
  forced,
  type ToolCall,
  type ToolParser,
  type ToolUse,
} from "./output.ts";

export const TAG = "[TOOL_CALLS]";

/** Where in the list of calls a character stands. */
type Place = "start" | "list" | "object" | "arguments" | "done";

export class MistralParser implements ToolParser {
  readonly engineBased = true;
  readonly #newId: () => string;
  readonly #use: ToolUse;
  /** The tag is spelled in several tokens: its beginning is held back. */
  readonly #spelled: boolean;
  #held = "";
  #started = false;
  #broken = false;
  #place: Place = "start";
  #bare = false;
  /** Depth of lists and objects inside the call, beside its arguments. */
  #depth = 0;
  #string: string | null = null;
  #escaped = false;
  /** The last string of the call's own level, and whether it was a key. */
  #key: string | null = null;
  #index = -1;
  #id: string | null = null;
  #call: CallDelta | null = null;
  #touched = false;

  constructor(newId: () => string, use: ToolUse, spelled: boolean) {
    this.#newId = newId;
    this.#use = use;
    this.#spelled = spelled;
  }

  push(text: string): Delta | null {
    let given = this.#held + text;
    this.#held = "";
    let content = "";
    const tag = given.indexOf(TAG);
    if (tag >= 0) {
      this.#started = true;
      content = given.slice(0, tag);
      given = given.slice(tag).replaceAll(TAG, "");
    } else if (!this.#started && this.#spelled && given !== "") {
      const keep = overlap(given, TAG);
      this.#held = given.slice(given.length - keep);
      given = given.slice(0, given.length - keep);
      // A tag of one token would give nothing to send either.
      if (given === "") return null;
    }
    if (!this.#started && forced(this.#use) && given !== "") {
      this.#started = true;
      given += this.#held;
      this.#held = "";
    }
    if (!this.#started) return { content: given, calls: [] };
    if (this.#broken) return null;
    const calls: CallDelta[] = [];
    this.#call = null;
    this.#touched = false;
    const after = this.#read(given, calls);
    if (this.#broken) return null;
    this.#put(calls);
    const said = content + after;
    if (said === "" && calls.length === 0) return this.#place === "done" ? { calls: [] } : null;
    return said === "" ? { calls } : { content: said, calls };
  }

  finish(): Delta | null {
    const rest = this.#held;
    this.#held = "";
    return rest === "" ? null : { content: rest, calls: [] };
  }

  /** Gives the text that stands behind the calls. */
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
      this.#said(text);
      return;
    }
    this.#escaped = !this.#escaped && character === "\\";
    this.#string += character;
  }

  /** A string of the call's own level has ended. */
  #said(raw: string): void {
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
      this.#id = this.#newId();
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

  /** The call so far goes out. */
  #put(calls: CallDelta[]): void {
    if (this.#touched) {
      calls.push(this.#id === null ? this.#call! : { ...this.#call!, id: this.#id });
      this.#id = null;
    }
    this.#call = null;
    this.#touched = false;
  }

  extract(text: string): Extracted {
    const nothing = { called: false, calls: [], content: text };
    if (this.#use.choice === "none" && this.#use.tools.length > 0) return nothing;
    const [before, ...segments] = text.split(TAG);
    if (segments.length === 0 && !forced(this.#use)) return nothing;
    const list = segments.length === 0 ? text.trim() : (segments.map((one) => one.trim()).find(Boolean) ?? "");
    const calls = callsOf(list).map(([name, given]): ToolCall => ({ id: this.#newId(), name, arguments: given }));
    if (calls.length === 0) return { called: false, calls: [], content: list };
    return { called: true, calls, content: segments.length > 0 && before!.trim() !== "" ? before! : null };
  }
}

function unescaped(raw: string): string {
  try {
    return JSON.parse(`"${raw}"`);
  } catch {
    return raw;
  }
}

/** Names and arguments. */
function callsOf(text: string): [string, string][] {
  const parsed = whole(text) ?? whole(/\[{[\s\S]*}\]/.exec(text)?.[0] ?? "");
  const list = isDict(parsed) ? [parsed] : isList(parsed) ? parsed : [];
  return list.flatMap((one): [string, string][] => {
    if (!isDict(one)) return [];
    const name = get(one, "name");
    const given = get(one, "arguments");
    if (name === undefined && given === undefined) return [];
    const text = typeof given === "string" ? given : pythonDumps(given ?? new Map());
    return [[typeof name === "string" ? name : "", text]];
  });
}

function whole(text: string): PythonValue | undefined {
  try {
    const { value, complete } = readPrefix(text, 0, true);
    return complete ? value : undefined;
  } catch {
    return undefined;
  }
}
