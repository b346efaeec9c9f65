/**
 * Tool calls as LFM2 writes them: `<|tool_call_start|>[f(a="x")]<|tool_call_end|>`. Follows vLLM 0.33,
 * `tool_parsers/lfm2_tool_parser.py` over `make_valid_python` and `compute_tool_delta` of `tool_parsers/utils.py`: what has come
 * is completed with the closing brackets that it lacks, and the arguments leave without what was added.
 */
import { dumpsString, pythonDumps } from "../../pydantic/dumps.ts";
import { isPlain } from "./growing-text.ts";
import type { CallDelta, Delta, Extracted, ToolCall, ToolParser } from "./output.ts";
import { type PythonCall, readCalls } from "./python-literal.ts";

const START = "<|tool_call_start|>";
const END = "<|tool_call_end|>";
export const PYTHONIC_MARKS = [START, END];
/** Longer calls are read at their end alone: each output reads all of the text. */
const CHARACTERS_MOST = 65_536;

export class PythonicParser implements ToolParser {
  readonly engineBased = false;
  readonly #newId: () => string;
  #text = "";
  /** The call that the next delta is of; -1: none has begun. */
  #index = -1;
  /** Per call: JSON of the arguments that was sent. */
  readonly #sent: string[] = [];
  #called = false;
  /** The text ends in a string that was sent so far, so that a plain piece only adds its own characters. */
  #appends = false;
  /** Text behind the calls that was sent. */
  #trailing = "";

  constructor(newId: () => string) {
    this.#newId = newId;
  }

  push(text: string): Delta | null {
    const before = this.#text;
    this.#text += text;
    if (this.#appends && isPlain(text)) {
      const more = dumpsString(text).slice(1, -1);
      this.#sent[this.#index] += more;
      return { content: null, calls: [{ index: this.#index, arguments: more }] };
    }
    this.#appends = false;
    const start = this.#text.indexOf(START);
    if (start < 0) return { content: text, calls: [] };
    const leading = before.includes(START) ? "" : this.#text.slice(before.length, start);
    const end = this.#text.indexOf(END);
    const trailing = end < 0 ? "" : this.#newTrailing(end + END.length);
    if (this.#called && before.includes(END)) return { content: trailing, calls: [] };
    const content = leading + trailing;
    const given = this.#text.slice(start + START.length, end < 0 ? undefined : end);
    const completed = given.length > CHARACTERS_MOST && end < 0 ? null : completedPython(given.trimStart());
    const calls = completed && this.#callsIn(completed);
    if (calls === null) return content === "" ? null : { content, calls: [] };
    this.#called ||= calls.length > 0;
    // An open string of the last call, and no bracket besides the call's own.
    this.#appends = end < 0 && calls.length > 0 && isPlain(text) && /^["']\)\]$/.test(completed!.added);
    if (calls.length > 0 || content !== "") return { content: content === "" ? null : content, calls };
    return completed!.added === "" && this.#index > 0 ? { content: "", calls: [] } : null;
  }

  unstreamed(): string {
    const sent = this.#sent[0] ?? "";
    return this.#called && "{}".startsWith(sent) ? "{}".slice(sent.length) : "";
  }

  /** The model may repeat its calls behind the first end: text up to the last end is passed over. */
  #newTrailing(from: number): string {
    const rest = this.#text.slice(from);
    const last = rest.lastIndexOf(END);
    const isDoubtful = last < 0 && /^\s*[[<]/.test(rest);
    const whole = last >= 0 ? rest.slice(last + END.length) : isDoubtful ? this.#trailing : rest;
    const more = whole.startsWith(this.#trailing) ? whole.slice(this.#trailing.length) : "";
    this.#trailing = whole;
    return more;
  }

  /** null: nothing can be said of the calls yet. */
  #callsIn({ text, added }: Completed): CallDelta[] | null {
    const calls = callsOf(text, !added.includes("}"));
    if (calls === null) return null;
    const deltas: CallDelta[] = [];
    for (const [index, call] of calls.entries()) {
      if (index < this.#index) continue;
      this.#index = index;
      if (this.#sent.length === index) this.#sent.push("");
      const isComplete = index < calls.length - 1 || !added.includes(")]");
      if (isComplete) this.#index++;
      const withheld = isComplete ? "" : withheldOf(added);
      const json = pythonDumps(new Map(call.given));
      if (!json.endsWith(withheld)) return null;
      const delta = this.#delta(index, call, json.slice(0, json.length - withheld.length));
      if (delta === null) continue;
      deltas.push(delta);
      this.#sent[index] += delta.arguments ?? "";
    }
    return deltas;
  }

  #delta(index: number, { name }: PythonCall, json: string): CallDelta | null {
    const sent = this.#sent[index]!;
    if (sent === "") return { id: this.#newId(), typed: true, index, name, arguments: json };
    const more = json.slice(sent.length);
    return more === "" ? null : { index, arguments: more };
  }

  extract(text: string): Extracted {
    const nothing = { called: false, calls: [], content: text };
    const start = text.indexOf(START);
    if (start < 0) return nothing;
    const end = text.indexOf(END, start);
    const found = callsOf(text.slice(start + START.length, end < 0 ? undefined : end).trim());
    if (found === null || found.length === 0) return nothing;
    const rest = end < 0 ? "" : text.slice(end + END.length);
    const parts = [
      text.slice(0, start).trim(),
      rest.slice(rest.lastIndexOf(END) + 1 && rest.lastIndexOf(END) + END.length).trim(),
    ];
    const calls = found.map(
      ({ name, given }): ToolCall => ({ id: this.#newId(), name, arguments: pythonDumps(new Map(given)) }),
    );
    return { called: true, calls, content: parts.filter((part) => part !== "").join("\n") || null };
  }
}

/** What of the JSON stands for characters that only completion added. */
function withheldOf(added: string): string {
  const own = added.slice(0, -2) + (added.at(-2) === ")" ? "}" : "");
  return own.replaceAll("'", '"');
}

function callsOf(text: string, takesSets = true): PythonCall[] | null {
  try {
    return readCalls(text, takesSets);
  } catch {
    return null;
  }
}

const CLOSING: Readonly<Record<string, string>> = { "[": "]", "(": ")", "{": "}", "'": "'", '"': '"' };

/** A text with the brackets and quotes that it lacked. */
interface Completed {
  readonly text: string;
  readonly added: string;
}

/** Closes brackets and quotes that are open. null: the text ends where its completion would say something else. */
function completedPython(given: string): Completed | null {
  const open = openIn(given);
  if (open === null || hasDoubtfulString(given)) return null;
  let text = given.trimEnd();
  if (/[=:]$/.test(text)) return null;
  const last = open.at(-1);
  const isUnsure = (bracket: string, name: string) => {
    const before = text.slice(0, text.lastIndexOf(bracket));
    return before.split(name).length <= before.split(",").length;
  };
  if (last === "{" && isUnsure("{", ":")) return null;
  if (last === "(" && isUnsure("(", "=")) return null;
  if (text.endsWith(",")) text = text.slice(0, -1);
  if (last === "[" && !/[[)]$/.test(text)) return null;
  const added = open.toReversed().map((bracket) => CLOSING[bracket]!);
  return { text: text + added.join(""), added: added.join("") };
}

/** Brackets and quotes that are open at the end, outermost first; null: they do not match. */
function openIn(text: string): string[] | null {
  const open: string[] = [];
  for (let at = 0; at < text.length; at++) {
    const character = text[at]!;
    const last = open.at(-1);
    if (last === '"' || last === "'") {
      if (character === "\\") at++;
      else if (character === last) open.pop();
    } else if ("[({\"'".includes(character)) open.push(character);
    else if ("])}".includes(character) && CLOSING[open.pop() ?? ""] !== character) return null;
  }
  return open;
}

/** Reports whether what follows the end of a string cannot follow one, or has not come (`contains_broken_string_literal`). */
function hasDoubtfulString(text: string): boolean {
  for (const { index, 0: string } of text.matchAll(/(["'])(?:\\[\s\S]|(?!\1)[^\\])*\1|\\[\s\S]/g))
    if (!string.startsWith("\\") && !/^\s*[,)\]}:]/.test(text.slice(index + string.length))) return true;
  return false;
}
