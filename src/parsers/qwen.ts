/**
 * Tool calls as Qwen3-Coder writes them: `<tool_call><function=f><parameter=a>…</parameter></function></tool_call>`. Follows
 * vLLM 0.33, `parser/qwen3.py` on `parser/engine/`: arguments leave as JSON, of an open value what can no longer change.
 */

import { dumpsString, pythonDumps } from "../python/dumps.ts";
import { coerced, type Properties, streamsAsText } from "./argument-types.ts";
import type { CallDelta, Delta, Extracted, ToolCall, ToolParser, ToolUse } from "./output.ts";

type State = "content" | "preamble" | "name" | "arguments" | "between";

/** What delimits the parts; those of the second list may be single tokens, and then only these count. */
const MARKS = ["<function=", "</function>", "<parameter=", "</parameter>", ">"];
export const TAGS = ["<tool_call>", "</tool_call>"];

/** State and mark to state; a call begins or ends with it. What is not here is text. */
const MOVES: Readonly<Record<string, readonly [to: State, ends?: boolean, begins?: boolean]>> = {
  "content <tool_call>": ["preamble", false, true],
  "content <function=": ["name", false, true],
  "preamble </tool_call>": ["content", true],
  "preamble <function=": ["name"],
  "name >": ["arguments"],
  "name </function>": ["between", true],
  "name </tool_call>": ["content", true],
  "name <tool_call>": ["preamble", true, true],
  "name <function=": ["name", true, true],
  "arguments </function>": ["between", true],
  "arguments <function=": ["name", true, true],
  "between </tool_call>": ["content"],
  "between <tool_call>": ["preamble", false, true],
  "between <function=": ["name", false, true],
};

interface Slot {
  readonly id: string;
  name: string;
  raw: string;
  named: boolean;
  sent: string;
}

/** Which of the tags is which token, and what no text of a message holds. */
export interface QwenTokens {
  /** By id. */
  readonly tags: ReadonlyMap<number, string>;
  /** Spellings of special tokens, which are dropped. */
  readonly dropped: readonly string[];
}

export class QwenParser implements ToolParser {
  readonly engineBased = true;
  readonly #newId: () => string;
  readonly #properties: (name: string) => Properties;
  readonly #tokens: QwenTokens;
  readonly #marks: readonly string[];
  readonly #firsts: ReadonlySet<string>;
  /** Calls are passed over: their text is neither content nor call. */
  readonly #suppressed: boolean;
  #state: State = "content";
  #held = "";
  #slots: Slot[] = [];
  /** White space in front, until something else comes. */
  #deferred = "";
  #said = false;
  #sawIds = false;

  constructor(newId: () => string, use: ToolUse, tokens: QwenTokens) {
    this.#newId = newId;
    this.#tokens = tokens;
    this.#marks = [...TAGS, ...MARKS, ...tokens.dropped].sort((a, b) => b.length - a.length);
    this.#firsts = new Set(this.#marks.map((mark) => mark[0]!));
    this.#suppressed = use.choice === "none" && use.tools.length > 0;
    this.#properties = (name) => {
      const found = use.tools.find((tool) => tool.name === name)?.parameters as { properties?: Properties } | null;
      return found?.properties ?? {};
    };
  }

  push(text: string, ids: readonly number[]): Delta | null {
    this.#sawIds ||= ids.length > 0;
    const made = new Made();
    const tags = ids.map((id) => this.#tokens.tags.get(id)).filter((tag) => tag !== undefined);
    let rest = text;
    for (const tag of tags) {
      const at = rest.indexOf(tag);
      if (at < 0) continue;
      this.#lex(rest.slice(0, at), made);
      this.#flush(made);
      this.#mark(tag, made);
      rest = rest.slice(at + tag.length);
    }
    this.#lex(rest, made);
    return this.#deltaOf(made, false);
  }

  finish(): Delta | null {
    const made = new Made();
    this.#flush(made);
    if (this.#state !== "content" && this.#slots.length > 0) this.#ends(made);
    this.#state = "content";
    return this.#deltaOf(made, true);
  }

  /** Single tokens are no longer looked for in text once ids were seen. */
  #isMark(mark: string): boolean {
    return !this.#sawIds || ![...this.#tokens.tags.values()].includes(mark);
  }

  #lex(text: string, made: Made): void {
    let buffer = this.#held + text;
    this.#held = "";
    while (buffer !== "") {
      const mark = this.#marks.find((one) => buffer.startsWith(one));
      if (mark === undefined && this.#marks.some((one) => one.startsWith(buffer))) {
        this.#held = buffer;
        return;
      }
      if (mark !== undefined) {
        if (this.#isMark(mark)) this.#mark(mark, made);
        else this.#text(mark, made);
        buffer = buffer.slice(mark.length);
        continue;
      }
      const end = this.#boundary(buffer);
      this.#text(buffer.slice(0, end), made);
      buffer = buffer.slice(end);
    }
  }

  /** Where a mark, or the beginning of one, may stand next. */
  #boundary(buffer: string): number {
    for (let at = 1; at < buffer.length; at++) {
      if (!this.#firsts.has(buffer[at]!)) continue;
      const rest = buffer.slice(at);
      if (this.#marks.some((mark) => rest.startsWith(mark) || mark.startsWith(rest))) return at;
    }
    return buffer.length;
  }

  #flush(made: Made): void {
    const rest = this.#held;
    this.#held = "";
    if (rest !== "") this.#text(rest, made);
  }

  #text(text: string, made: Made): void {
    if (this.#state === "content") made.content(text);
    else if (this.#suppressed) return;
    else if (this.#state === "name") this.#slots.at(-1)!.name += text;
    else if (this.#state === "arguments") this.#argument(text, made);
  }

  #mark(mark: string, made: Made): void {
    const move = MOVES[`${this.#state} ${mark}`];
    if (move === undefined) {
      if (!this.#tokens.dropped.includes(mark)) this.#text(mark, made);
      return;
    }
    const [to, ends, begins] = move;
    if (ends) this.#ends(made);
    this.#state = to;
    if (!begins) return;
    made.tool(this.#suppressed);
    if (!this.#suppressed) this.#slots.push({ id: this.#newId(), name: "", raw: "", named: false, sent: "" });
  }

  #argument(text: string, made: Made): void {
    made.tool(false);
    const slot = this.#slots.at(-1)!;
    slot.raw += text;
    if (!slot.named) {
      if (slot.name === "") return;
      slot.named = true;
      made.call({ id: slot.id, typed: true, index: this.#slots.length - 1, name: slot.name });
      return;
    }
    const safe = this.#safe(slot);
    if (safe.length <= slot.sent.length || !safe.startsWith(slot.sent)) return;
    made.call({ index: this.#slots.length - 1, arguments: safe.slice(slot.sent.length) });
    slot.sent = safe;
  }

  #ends(made: Made): void {
    if (this.#suppressed) return;
    made.tool(false);
    const slot = this.#slots.at(-1)!;
    const whole = this.#json(slot, false);
    let rest = whole.startsWith(slot.sent) ? whole.slice(slot.sent.length) : "";
    if (rest !== "") slot.sent = whole;
    const index = this.#slots.length - 1;
    if (!slot.named && slot.name !== "") {
      slot.named = true;
      made.call({ id: slot.id, typed: true, index, name: slot.name, arguments: rest });
      rest = "";
    }
    if (rest !== "" && slot.named) made.call({ index, arguments: rest });
  }

  #json(slot: Slot, open: boolean): string {
    const properties = this.#properties(slot.name);
    const members = parametersOf(slot.raw, open);
    return pythonDumps(new Map([...members].map(([key, text]) => [key, coerced(text, properties[key])])));
  }

  /** Up to the last value; into it where it is text that only grows. */
  #safe(slot: Slot): string {
    const members = [...parametersOf(slot.raw, true)];
    const last = members.pop();
    if (last === undefined) return "";
    const properties = this.#properties(slot.name);
    const pairs = members.map(([key, text]) => `${dumpsString(key)}: ${pythonDumps(coerced(text, properties[key]))}, `);
    const head = `{${pairs.join("")}${dumpsString(last[0])}: `;
    return streamsAsText(last[0], properties) ? head + dumpsString(last[1]).slice(0, -1) : head;
  }

  #deltaOf(made: Made, finished: boolean): Delta | null {
    let content = made.before;
    if (made.after !== "" || this.#deferred !== "") {
      if (!made.toolSeen || made.calls.length === 0) {
        content = this.#deferred + content + made.after;
        this.#deferred = "";
      } else this.#deferred += made.after;
    }
    if (!this.#said && content !== "") {
      if (content.trim() !== "") this.#said = true;
      else if (this.#slots.length > 0) content = "";
      else if (!finished) {
        this.#deferred = content;
        content = "";
      }
    }
    if (content === "" && made.calls.length === 0) return null;
    return { ...(content === "" ? {} : { content }), calls: made.calls };
  }

  extract(text: string): Extracted {
    const made = new Made();
    this.#lex(text, made);
    this.#flush(made);
    if (this.#state !== "content" && this.#slots.length > 0) this.#ends(made);
    const content = this.#deltaOf(made, true)?.content ?? "";
    const calls = this.#slots.flatMap((slot): ToolCall[] => {
      const name = slot.name.trim();
      if (name === "") return [];
      return [{ id: slot.id, name, arguments: slot.raw.trim() === "" ? "{}" : this.#json({ ...slot, name }, false) }];
    });
    return { called: calls.length > 0, calls, content: (calls.length > 0 ? content.trim() : content) || null };
  }
}

/** What one output has brought. */
class Made {
  before = "";
  /** Content behind something of a call. */
  after = "";
  toolSeen = false;
  readonly calls: CallDelta[] = [];

  content(text: string): void {
    if (this.toolSeen) this.after += text;
    else this.before += text;
  }

  tool(suppressed: boolean): void {
    if (!suppressed) this.toolSeen = true;
  }

  /** Deltas of one call are one. */
  call(delta: CallDelta): void {
    const same = this.calls.find(({ index }) => index === delta.index);
    if (same === undefined) this.calls.push(delta);
    else if (delta.arguments !== undefined) same.arguments = (same.arguments ?? "") + delta.arguments;
  }
}

const PARAMETER = /<\s*parameter\s*=\s*([^>]*)>([\s\S]*?)(?:<\s*\/\s*parameter\s*>|(?=<\s*parameter\s*=))/g;
const OPEN_PARAMETER = /<\s*parameter\s*=\s*([^>]+)>([\s\S]*)$/;

/** `open`: with one that has not ended. */
function parametersOf(raw: string, open: boolean): Map<string, string> {
  const members = new Map<string, string>();
  for (const [, name, value] of raw.matchAll(PARAMETER)) members.set(name!, unwrapped(value!));
  const rest = open ? OPEN_PARAMETER.exec(raw.replace(PARAMETER, "")) : null;
  if (rest !== null) members.set(rest[1]!, unwrapped(rest[2]!));
  return members;
}

/** One line break at each end is the template's. */
function unwrapped(value: string): string {
  const from = value.startsWith("\n") ? 1 : 0;
  const to = value.length - (value.endsWith("\n") && value.length > from ? 1 : 0);
  return value.slice(from, to);
}
