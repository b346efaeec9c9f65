/**
 * Tool calls as Hermes and Qwen 2.5 write them: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`. Follows vLLM 0.33,
 * `tool_parsers/hermes_tool_parser.py`: the same deltas for the same outputs, without reading all of the text each time.
 */

import { pythonDumps } from "../../pydantic/dumps.ts";
import { parsePython } from "../../pydantic/json.ts";
import { get, isDict, type PythonValue } from "../../pydantic/value.ts";
import type { CallDelta, Delta, Extracted, ToolCall, ToolParser } from "./output.ts";

const START = "<tool_call>";
const END = "</tool_call>";
const NAME = /"name"\s*:\s*"([^"]+)"/;
const ARGUMENTS = /"arguments"\s*:\s*/;

/** How much of the end of `text` may be the beginning of `tag`. */
export function overlap(text: string, tag: string): number {
  for (let length = Math.min(tag.length - 1, text.length); length > 0; length--)
    if (text.endsWith(tag.slice(0, length))) return length;
  return 0;
}

/** A call whose end has not come. */
interface Open {
  raw: string;
  /** Where its end may begin: what stands before was looked at. */
  seen: number;
  name: string | null;
  /** Where the arguments begin in the trimmed text; -1: not yet. */
  argumentsAt: number;
}

export class HermesParser implements ToolParser {
  readonly engineBased = false;
  readonly #newId: () => string;
  /** Before the first call: what may be the beginning of its tag. After it: text since the last call's end. */
  #held = "";
  #called = false;
  #index = -1;
  #open: Open | null = null;
  /** Length of the arguments of the last call that were sent. */
  #sent = 0;
  /** A call whose name never came keeps those behind it back. */
  #stuck = false;

  constructor(newId: () => string) {
    this.#newId = newId;
  }

  push(text: string): Delta | null {
    this.#held += text;
    let content: string | null = null;
    if (!this.#called) {
      const start = this.#held.indexOf(START);
      const sendable = start < 0 ? this.#held.length - overlap(this.#held, START) : start;
      if (sendable > 0) content = this.#held.slice(0, sendable);
      this.#held = this.#held.slice(sendable);
      this.#called = start >= 0;
    }
    const calls: CallDelta[] = [];
    if (this.#called && !this.#stuck) this.#read(calls);
    return content === null && calls.length === 0 ? null : { content, calls };
  }

  unstreamed(): string {
    return this.#index >= 0 && this.#sent === 0 ? "{}" : "";
  }

  #read(calls: CallDelta[]): void {
    for (;;) {
      if (this.#open === null) {
        const start = this.#held.indexOf(START);
        if (start < 0) {
          this.#held = this.#held.slice(this.#held.length - overlap(this.#held, START));
          return;
        }
        this.#open = { raw: "", seen: 0, name: null, argumentsAt: -1 };
        this.#held = this.#held.slice(start + START.length);
        this.#index++;
        this.#sent = 0;
      }
      const open = this.#open;
      open.raw += this.#held;
      this.#held = "";
      const end = open.raw.indexOf(END, open.seen);
      if (end < 0) {
        open.seen = Math.max(0, open.raw.length - END.length + 1);
        this.#tell(open, open.raw.slice(0, open.raw.length - overlap(open.raw, END)).trim(), false, calls);
        return;
      }
      this.#held = open.raw.slice(end + END.length);
      this.#tell(open, open.raw.slice(0, end).trim(), true, calls);
      if (open.name === null) {
        this.#stuck = true;
        return;
      }
      this.#open = null;
    }
  }

  #tell(open: Open, json: string, closed: boolean, calls: CallDelta[]): void {
    const index = this.#index;
    if (open.name === null) {
      open.name = NAME.exec(json)?.[1] ?? null;
      if (open.name === null) return;
      calls.push({ id: this.#newId(), typed: true, index, name: open.name });
    }
    if (open.argumentsAt < 0) {
      const match = ARGUMENTS.exec(json);
      if (match === null) return;
      // A blank after the colon may be all there is so far.
      if (match.index + match[0].length === json.length && !closed) return;
      open.argumentsAt = match.index + match[0].length;
    }
    let given = json.slice(open.argumentsAt);
    if (closed || (json.endsWith("}") && isJson(json))) {
      given = given.trimEnd();
      if (given.endsWith("}")) given = given.slice(0, -1).trimEnd();
    }
    if (given.length <= this.#sent) return;
    calls.push({ index, arguments: given.slice(this.#sent) });
    this.#sent = given.length;
  }

  extract(text: string): Extracted {
    const nothing = { called: false, calls: [], content: text };
    if (!text.includes(START)) return nothing;
    const calls: ToolCall[] = [];
    for (const [, closed, open] of text.matchAll(/<tool_call>([\s\S]*?)<\/tool_call>|<tool_call>([\s\S]*)/g)) {
      const call = callOf(closed || open || "", this.#newId);
      if (call === null) return nothing;
      calls.push(call);
    }
    return { called: true, calls, content: text.slice(0, text.indexOf(START)) || null };
  }
}

function callOf(json: string, newId: () => string): ToolCall | null {
  try {
    const value = parsePython(json);
    if (!isDict(value)) return null;
    const name = get(value, "name");
    const given = get(value, "arguments");
    if (typeof name !== "string" || given === undefined) return null;
    return { id: newId(), name, arguments: pythonDumps(given as PythonValue) };
  } catch {
    return null;
  }
}

/** Only looked at where braces are balanced: reading it each time would take ever longer. */
function isJson(text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === 0x22) {
      for (at++; at < text.length && text.charCodeAt(at) !== 0x22; at++) if (text.charCodeAt(at) === 0x5c) at++;
    } else if (unit === 0x7b) depth++;
    else if (unit === 0x7d) depth--;
  }
  if (depth !== 0) return false;
  try {
    parsePython(text);
    return true;
  } catch {
    return false;
  }
}
