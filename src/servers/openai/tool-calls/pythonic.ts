/**
 * Reads tool calls in the format of LFM2: `<|tool_call_start|>[f(a="x")]<|tool_call_end|>`. Adds the missing closing brackets to
 * the text so far, reads it, and sends the arguments without the added part. Like vLLM 0.33: `tool_parsers/lfm2_tool_parser.py`
 * with `make_valid_python` and `compute_tool_delta` of `tool_parsers/utils.py`.
 */
import { dumpsString, pythonDumps } from "../../pydantic/dumps.ts";
import { isPlain } from "./growing-text.ts";
import type { CallDelta, Delta, ExtractedCalls, ToolCall, ToolParser } from "./output.ts";
import { noCalls } from "./parser-parts.ts";
import { type PythonCall, readCalls } from "./python-literal.ts";

const START = "<|tool_call_start|>";
const END = "<|tool_call_end|>";
export const PYTHONIC_MARKS = [START, END];
/** Characters above which calls are only read at their end. Shorter calls are read anew for each output. */
const CHARACTERS_MOST = 65_536;

export class PythonicParser implements ToolParser {
  readonly engineBased = false;
  #text = "";
  /** Index of the call to which the next delta belongs. -1: no call yet. */
  #index = -1;
  /** The part of the arguments' JSON that was sent, by call. */
  readonly #sent: string[] = [];
  /** True once a call was found. */
  #called = false;
  /** True if an incomplete string at the end was fully sent. A piece without special characters is then sent at once. */
  #appends = false;
  /** Content after the calls that was sent. */
  #trailing = "";

  constructor(private readonly newId: () => string) {}

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
    const written = this.#text.slice(start + START.length, end < 0 ? undefined : end);
    const completed = written.length > CHARACTERS_MOST && end < 0 ? null : completedPython(written.trimStart());
    const calls = completed && this.#callsIn(completed);
    if (calls === null) return content === "" ? null : { content, calls: [] };
    this.#called ||= calls.length > 0;
    // Only a quote and the brackets of the last call were missing, so the text ends in a string of this call.
    this.#appends = end < 0 && calls.length > 0 && isPlain(text) && /^["']\)\]$/.test(completed!.added);
    if (calls.length > 0 || content !== "") return { content: content === "" ? null : content, calls };
    return completed!.added === "" && this.#index > 0 ? { content: "", calls: [] } : null;
  }

  unstreamed(): string {
    const sent = this.#sent[0] ?? "";
    return this.#called && "{}".startsWith(sent) ? "{}".slice(sent.length) : "";
  }

  /** Returns new content after the calls. Skips text up to the last end mark, because the model may repeat its calls. */
  #newTrailing(from: number): string {
    const rest = this.#text.slice(from);
    const last = rest.lastIndexOf(END);
    const isDoubtful = last < 0 && /^\s*[[<]/.test(rest);
    const whole = last >= 0 ? rest.slice(last + END.length) : isDoubtful ? this.#trailing : rest;
    const more = whole.startsWith(this.#trailing) ? whole.slice(this.#trailing.length) : "";
    this.#trailing = whole;
    return more;
  }

  /** Makes the deltas of the calls so far. Returns null if the calls cannot be read yet. */
  #callsIn({ text, added }: CompletedText): CallDelta[] | null {
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
      const json = pythonDumps(new Map(call.args));
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
    if (sent === "") return { id: this.newId(), typed: true, index, name, arguments: json };
    const more = json.slice(sent.length);
    return more === "" ? null : { index, arguments: more };
  }

  extract(text: string): ExtractedCalls {
    const start = text.indexOf(START);
    if (start < 0) return noCalls(text);
    const end = text.indexOf(END, start);
    const found = callsOf(text.slice(start + START.length, end < 0 ? undefined : end).trim());
    if (found === null || found.length === 0) return noCalls(text);
    const rest = end < 0 ? "" : text.slice(end + END.length);
    const parts = [
      text.slice(0, start).trim(),
      rest.slice(rest.lastIndexOf(END) + 1 && rest.lastIndexOf(END) + END.length).trim(),
    ];
    const calls = found.map(
      ({ name, args }): ToolCall => ({ id: this.newId(), name, arguments: pythonDumps(new Map(args)) }),
    );
    return { called: true, calls, content: parts.filter((part) => part !== "").join("\n") || null };
  }
}

/** Returns the end of the JSON that corresponds to the added characters. */
function withheldOf(added: string): string {
  const closing = added.slice(0, -2) + (added.at(-2) === ")" ? "}" : "");
  return closing.replaceAll("'", '"');
}

/** Reads a list of calls. Returns null if it is malformed. */
function callsOf(text: string, allowSets = true): PythonCall[] | null {
  try {
    return readCalls(text, allowSets);
  } catch {
    return null;
  }
}

const CLOSING: Readonly<Record<string, string>> = { "[": "]", "(": ")", "{": "}", "'": "'", '"': '"' };

/** A text with its missing brackets and quotes added. */
interface CompletedText {
  readonly text: string;
  readonly added: string;
}

/** Adds missing brackets and quotes. Returns null if the result could mean something else than the complete text. */
function completedPython(written: string): CompletedText | null {
  const open = openIn(written);
  if (open === null || hasDoubtfulString(written)) return null;
  let text = written.trimEnd();
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

/** Returns the brackets and quotes that are open at the end, outermost first. Returns null if they do not match. */
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

/** Reports whether a string is followed by nothing, or by an invalid character (`contains_broken_string_literal`). */
function hasDoubtfulString(text: string): boolean {
  for (const { index, 0: string } of text.matchAll(/(["'])(?:\\[\s\S]|(?!\1)[^\\])*\1|\\[\s\S]/g))
    if (!string.startsWith("\\") && !/^\s*[,)\]}:]/.test(text.slice(index + string.length))) return true;
  return false;
}
