/**
 * Reads tool calls in the format of Hermes and Qwen 2.5: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`. Makes the same
 * deltas as vLLM 0.33 (`tool_parsers/hermes_tool_parser.py`), but does not read the whole text again for each output.
 */

import { pythonDumps } from "../../pydantic/dumps.ts";
import { get, isDict } from "../../pydantic/value.ts";
import type { CallDelta, Delta, ExtractedCalls, ToolCall, ToolParser } from "./output.ts";
import { noCalls, overlap, pythonJsonIn } from "./parser-parts.ts";

const START = "<tool_call>";
const END = "</tool_call>";
const NAME = /"name"\s*:\s*"([^"]+)"/;
const ARGUMENTS = /"arguments"\s*:\s*/;

/** A call without its end so far. */
interface OpenCall {
  raw: string;
  /** Offset in `raw` from which to search for the end. */
  seen: number;
  name: string | null;
  /** Offset of the arguments in the trimmed text. -1: not found yet. */
  argumentsAt: number;
}

export class HermesParser implements ToolParser {
  readonly engineBased = false;
  /** Before the first call: text that may be the beginning of its tag. Afterwards: text since the last call's end. */
  #held = "";
  /** True once the tag of a call was found. */
  #called = false;
  #index = -1;
  #open: OpenCall | null = null;
  /** Number of characters of the last call's arguments that were sent. */
  #sent = 0;
  /** True after a call that has ended without a name. vLLM then finds no further calls. */
  #stuck = false;

  constructor(private readonly newId: () => string) {}

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
        this.#send(open, open.raw.slice(0, open.raw.length - overlap(open.raw, END)).trim(), false, calls);
        return;
      }
      this.#held = open.raw.slice(end + END.length);
      this.#send(open, open.raw.slice(0, end).trim(), true, calls);
      if (open.name === null) {
        this.#stuck = true;
        return;
      }
      this.#open = null;
    }
  }

  /** Adds the deltas for the new part of a call. `json`: its trimmed text so far. */
  #send(open: OpenCall, json: string, closed: boolean, calls: CallDelta[]): void {
    const index = this.#index;
    if (open.name === null) {
      open.name = NAME.exec(json)?.[1] ?? null;
      if (open.name === null) return;
      calls.push({ id: this.newId(), typed: true, index, name: open.name });
    }
    if (open.argumentsAt < 0) {
      const match = ARGUMENTS.exec(json);
      if (match === null) return;
      // More white space may follow before the arguments.
      if (match.index + match[0].length === json.length && !closed) return;
      open.argumentsAt = match.index + match[0].length;
    }
    let text = json.slice(open.argumentsAt);
    if (closed || (json.endsWith("}") && isJson(json))) {
      text = text.trimEnd();
      if (text.endsWith("}")) text = text.slice(0, -1).trimEnd();
    }
    if (text.length <= this.#sent) return;
    calls.push({ index, arguments: text.slice(this.#sent) });
    this.#sent = text.length;
  }

  extract(text: string): ExtractedCalls {
    if (!text.includes(START)) return noCalls(text);
    const calls: ToolCall[] = [];
    for (const [, closed, open] of text.matchAll(/<tool_call>([\s\S]*?)<\/tool_call>|<tool_call>([\s\S]*)/g)) {
      const call = callOf(closed || open || "", this.newId);
      if (call === null) return noCalls(text);
      calls.push(call);
    }
    return { called: true, calls, content: text.slice(0, text.indexOf(START)) || null };
  }
}

/** Reads a complete call. Returns null if it is malformed. */
function callOf(json: string, newId: () => string): ToolCall | null {
  const value = pythonJsonIn(json);
  if (!isDict(value)) return null;
  const name = get(value, "name");
  const args = get(value, "arguments");
  if (typeof name !== "string" || args === undefined) return null;
  return { id: newId(), name, arguments: pythonDumps(args) };
}

/**
 * Reports whether the text is complete JSON. Counts its braces first and parses only a balanced text, because a text that
 * still grows is checked again and again.
 */
function isJson(text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === 0x22) {
      for (at++; at < text.length && text.charCodeAt(at) !== 0x22; at++) if (text.charCodeAt(at) === 0x5c) at++;
    } else if (unit === 0x7b) depth++;
    else if (unit === 0x7d) depth--;
  }
  return depth === 0 && pythonJsonIn(text) !== undefined;
}
