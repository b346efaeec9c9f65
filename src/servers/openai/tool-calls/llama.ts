/**
 * Tool calls as Llama 3 writes them: JSON objects with `name` and `parameters` or `arguments`, one after the other with `; `.
 * Follows vLLM 0.33, `tool_parsers/llama_tool_parser.py`: arguments leave as far as two outputs in a row agree on them.
 */

import { pythonDumps } from "../../pydantic/dumps.ts";
import { get, isDict, type PythonDict, type PythonValue } from "../../pydantic/value.ts";
import { isEmpty, type JsonPrefix, Malformed, readPrefix } from "./json-prefix.ts";
import type { CallDelta, Delta, Extracted, ToolCall, ToolParser } from "./output.ts";

const TAG = "<|python_tag|>";
const SEPARATOR_LENGTH = "; ".length;
/** Longer answers are read at their end alone: each output reads all of the text. */
const CHARACTERS_MOST = 65_536;

export class LlamaParser implements ToolParser {
  readonly engineBased = false;
  readonly #newId: () => string;
  #text = "";
  /** The call that deltas are of; -1: none has begun. */
  #index = -1;
  #named = false;
  /** Per call: arguments that were sent. */
  readonly #sent: string[] = [];
  #previous: readonly PythonDict[] = [];

  constructor(newId: () => string) {
    this.#newId = newId;
  }

  push(text: string): Delta | null {
    this.#text += text;
    if (!this.#text.startsWith(TAG) && !this.#text.startsWith("{")) return { content: text, calls: [] };
    if (this.#text.length > CHARACTERS_MOST && text !== "") return null;
    try {
      const call = this.#read();
      return call === null ? null : { calls: [call] };
    } catch {
      return null; // vLLM logs what it could not read, and goes on
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
    const all = this.#objects();
    const values = all.map(({ value }) => value);
    // Python counts -1 from the end.
    const current = values.at(this.#index);
    if (current === undefined) return null;
    if (values.length > this.#index + 1) {
      const rest = this.#index >= 0 ? this.#restOf(current) : null;
      this.#index = values.length - 1;
      this.#named = false;
      this.#sent.push("");
      return rest;
    }
    const delta = this.#named ? this.#argumentsOf(current, all[this.#index]!.complete) : this.#nameOf(current);
    this.#previous = values;
    return delta;
  }

  /** What of a call's arguments was not sent when the next one begins. */
  #restOf(call: PythonDict): CallDelta | null {
    const given = get(call, "arguments");
    if (isEmpty(given)) return null;
    return this.#send(pythonDumps(given as PythonValue).slice(this.#sent[this.#index]!.length));
  }

  #nameOf(call: PythonDict): CallDelta | null {
    const name = get(call, "name");
    if (typeof name !== "string" || name === "") return null;
    this.#named = true;
    return { id: this.#newId(), typed: true, index: this.#index, name };
  }

  #argumentsOf(call: PythonDict, complete: boolean): CallDelta | null {
    const given = get(call, "arguments");
    if (isEmpty(given)) return null;
    const sent = this.#sent[this.#index]!.length;
    const now = pythonDumps(given as PythonValue);
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

  #objects(): { readonly value: PythonDict; readonly complete: boolean }[] {
    const text = this.#text;
    const found: { value: PythonDict; complete: boolean }[] = [];
    let at = text.startsWith(TAG) ? TAG.length : 0;
    while (at < text.length) {
      const one: JsonPrefix = readPrefix(text, at, this.#named);
      if (!isDict(one.value)) throw new Malformed();
      const given = get(one.value, "parameters");
      if (given !== undefined) {
        if (get(one.value, "arguments") !== undefined) throw new Malformed();
        (one.value as Map<string, PythonValue>).set("arguments", given);
      }
      found.push({ value: one.value, complete: one.complete });
      at = one.end + SEPARATOR_LENGTH;
    }
    return found;
  }

  extract(text: string): Extracted {
    const nothing = { called: false, calls: [], content: text };
    const calls: ToolCall[] = [];
    for (let at = text.indexOf("{"); at >= 0; at = text.indexOf("{", at)) {
      const found = this.#callAt(text, at);
      if (found === null) return nothing;
      calls.push(found.call);
      at = found.end + 1;
    }
    return calls.length > 0 ? { called: true, calls, content: null } : nothing;
  }

  #callAt(text: string, at: number): { readonly call: ToolCall; readonly end: number } | null {
    try {
      const { value, end, complete } = readPrefix(text, at, true);
      if (!complete || !isDict(value)) return null;
      const name = get(value, "name");
      const given = get(value, "arguments") ?? get(value, "parameters");
      if (typeof name !== "string" || given === undefined) return null;
      return { call: { id: this.#newId(), name, arguments: pythonDumps(given) }, end };
    } catch {
      return null;
    }
  }
}
