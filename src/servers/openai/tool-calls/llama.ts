/**
 * Reads tool calls in the format of Llama 3: JSON objects with `name` and `parameters` or `arguments`, separated by `; `. Like
 * vLLM 0.33 (`tool_parsers/llama_tool_parser.py`), it sends the part of the arguments that is equal after two successive outputs.
 */

import { pythonDumps } from "../../pydantic/dumps.ts";
import { get, isDict, type PythonDict, type PythonValue } from "../../pydantic/value.ts";
import { isEmpty, type JsonPrefix, MalformedJson, readPrefix } from "./json-prefix.ts";
import type { CallDelta, Delta, ExtractedCalls, ToolCall, ToolParser } from "./output.ts";
import { noCalls } from "./parser-parts.ts";

const TAG = "<|python_tag|>";
const SEPARATOR_LENGTH = "; ".length;
/** Characters above which an answer is only read at its end. A shorter answer is read anew for each output. */
const CHARACTERS_MOST = 65_536;

export class LlamaParser implements ToolParser {
  readonly engineBased = false;
  #text = "";
  /** Index of the current call. -1: no call yet. */
  #index = -1;
  /** True if the name of the current call was sent. */
  #named = false;
  /** The part of the arguments' JSON that was sent, by call. */
  readonly #sent: string[] = [];
  /** The calls as they were after the previous output. */
  #previous: readonly PythonDict[] = [];

  constructor(private readonly newId: () => string) {}

  push(text: string): Delta | null {
    this.#text += text;
    if (!this.#text.startsWith(TAG) && !this.#text.startsWith("{")) return { content: text, calls: [] };
    if (this.#text.length > CHARACTERS_MOST && text !== "") return null;
    try {
      const call = this.#read();
      return call === null ? null : { calls: [call] };
    } catch {
      return null; // vLLM logs the error and continues
    }
  }

  unstreamed(): string {
    const last = this.#previous.length - 1;
    if (last < 0) return "";
    const expected = pythonDumps(get(this.#previous[last]!, "arguments") ?? {});
    const sent = this.#sent[last] ?? "";
    return expected.startsWith(sent) ? expected.slice(sent.length) : "";
  }

  #read(): CallDelta | null {
    const objects = this.#objects();
    const values = objects.map(({ value }) => value);
    // Like in Python, the index -1 means the last call.
    const current = values.at(this.#index);
    if (current === undefined) return null;
    if (values.length > this.#index + 1) {
      const rest = this.#index >= 0 ? this.#restOf(current) : null;
      this.#index = values.length - 1;
      this.#named = false;
      this.#sent.push("");
      return rest;
    }
    const delta = this.#named ? this.#argumentsOf(current, objects[this.#index]!.complete) : this.#nameOf(current);
    this.#previous = values;
    return delta;
  }

  /** Returns the rest of a call's arguments when the next call begins. */
  #restOf(call: PythonDict): CallDelta | null {
    const args = get(call, "arguments");
    if (isEmpty(args)) return null;
    return this.#send(pythonDumps(args as PythonValue).slice(this.#sent[this.#index]!.length));
  }

  #nameOf(call: PythonDict): CallDelta | null {
    const name = get(call, "name");
    if (typeof name !== "string" || name === "") return null;
    this.#named = true;
    return { id: this.newId(), typed: true, index: this.#index, name };
  }

  #argumentsOf(call: PythonDict, complete: boolean): CallDelta | null {
    const args = get(call, "arguments");
    if (isEmpty(args)) return null;
    const sent = this.#sent[this.#index]!.length;
    const now = pythonDumps(args as PythonValue);
    const earlier = this.#previous[this.#index];
    const before = earlier === undefined ? undefined : get(earlier, "arguments");
    if (complete) return this.#send(now.slice(sent));
    if (isEmpty(before)) return null;
    const then = pythonDumps(before as PythonValue);
    if (then === now) return null;
    let same = 0;
    while (same < then.length && then[same] === now[same]) same++;
    return this.#send(now.slice(sent, Math.max(sent, same)));
  }

  #send(more: string): CallDelta {
    this.#sent[this.#index] += more;
    return { index: this.#index, arguments: more };
  }

  /** Reads all calls so far, with `parameters` renamed to `arguments`. Throws `MalformedJson`. */
  #objects(): { readonly value: PythonDict; readonly complete: boolean }[] {
    const text = this.#text;
    const found: { value: PythonDict; complete: boolean }[] = [];
    let at = text.startsWith(TAG) ? TAG.length : 0;
    while (at < text.length) {
      const { value, end, complete }: JsonPrefix = readPrefix(text, at, this.#named);
      if (!isDict(value)) throw new MalformedJson();
      const parameters = get(value, "parameters");
      if (parameters !== undefined) {
        if (get(value, "arguments") !== undefined) throw new MalformedJson();
        (value as Map<string, PythonValue>).set("arguments", parameters);
      }
      found.push({ value, complete });
      at = end + SEPARATOR_LENGTH;
    }
    return found;
  }

  extract(text: string): ExtractedCalls {
    const calls: ToolCall[] = [];
    for (let at = text.indexOf("{"); at >= 0; at = text.indexOf("{", at)) {
      const found = this.#callAt(text, at);
      if (found === null) return noCalls(text);
      calls.push(found.call);
      at = found.end + 1;
    }
    return calls.length > 0 ? { called: true, calls, content: null } : noCalls(text);
  }

  /** Reads a complete call at this offset. Returns null if there is none. */
  #callAt(text: string, at: number): { readonly call: ToolCall; readonly end: number } | null {
    try {
      const { value, end, complete } = readPrefix(text, at, true);
      if (!complete || !isDict(value)) return null;
      const name = get(value, "name");
      const args = get(value, "arguments") ?? get(value, "parameters");
      if (typeof name !== "string" || args === undefined) return null;
      return { call: { id: this.newId(), name, arguments: pythonDumps(args) }, end };
    } catch {
      return null;
    }
  }
}
