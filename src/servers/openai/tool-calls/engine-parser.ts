/**
 * Reads tool calls by a grammar, as the declarative engine of vLLM 0.33 does (`parser/engine/`): arguments leave as JSON, of an
 * open value the part that can no longer change.
 */
import { dumpsString, pythonDumps } from "../../pydantic/dumps.ts";
import type { PythonValue } from "../../pydantic/value.ts";
import { fitted, type Properties, streamsAsText } from "./argument-types.ts";
import type { CallGrammar, CallState } from "./grammar.ts";
import { isPlain, OpenJson } from "./growing-text.ts";
import type { CallDelta, Delta, Extracted, ToolCall, ToolParser, ToolUse } from "./output.ts";

/** A call so far. */
interface Slot {
  id: string;
  /** The text between the marks of a name. */
  name: string;
  /** Raw arguments. */
  raw: string;
  /** The delta with the name was sent. */
  named: boolean;
  /** JSON of the arguments that was sent. */
  sent: string;
  /** The raw arguments end in a text that only grows, so each further piece of it is looked at. */
  inText: boolean;
  /** The raw arguments end in a text that was sent so far, so that a plain piece only adds its own characters. */
  appends: boolean;
}

/** Tokens of a vocabulary that a grammar knows. */
export interface GrammarTokens {
  /** The grammar's tags by id. */
  readonly tags: ReadonlyMap<number, string>;
  /** Spellings of the other special tokens, which are dropped from the text. */
  readonly dropped: readonly string[];
}

export class EngineParser implements ToolParser {
  readonly engineBased = true;
  readonly #grammar: CallGrammar;
  readonly #newId: () => string;
  readonly #use: ToolUse;
  readonly #tokens: GrammarTokens;
  readonly #marks: readonly string[];
  readonly #firsts: ReadonlySet<string>;
  /** Calls are passed over: their text is neither content nor call. */
  readonly #suppressed: boolean;
  #state: CallState = "content";
  #held = "";
  #slots: Slot[] = [];
  /** White space in front, until something else comes. */
  #deferred = "";
  #said = false;
  #sawIds = false;
  /** JSON arguments that pass as they come: the end of them that waits, and how deep they are. */
  readonly #json = new OpenJson();

  constructor(grammar: CallGrammar, newId: () => string, use: ToolUse, tokens: GrammarTokens) {
    this.#grammar = grammar;
    this.#newId = newId;
    this.#use = use;
    this.#tokens = tokens;
    this.#marks = [...grammar.tags, ...grammar.marks, ...tokens.dropped].sort((a, b) => b.length - a.length);
    this.#firsts = new Set(this.#marks.map((mark) => mark[0]!));
    this.#suppressed = use.choice === "none" && use.tools.length > 0;
  }

  #properties(name: string): Properties {
    const found = this.#use.tools.find((tool) => tool.name === name)?.parameters as { properties?: Properties } | null;
    return found?.properties ?? {};
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
    this.#close(made);
    return this.#deltaOf(made, true);
  }

  /** Single tokens are no longer looked for in text once ids were seen. */
  #isMark(mark: string): boolean {
    return !this.#sawIds || ![...this.#tokens.tags.values()].includes(mark);
  }

  /** `final`: nothing follows that could make a longer mark of the end. */
  #lex(text: string, made: Made, final = false): void {
    let buffer = this.#held + text;
    this.#held = "";
    while (buffer !== "") {
      const isBeginning = this.#marks.some((one) => one.length > buffer.length && one.startsWith(buffer));
      const mark = this.#marks.find((one) => buffer.startsWith(one));
      if (isBeginning && (!final || mark === undefined)) {
        if (final) this.#text(buffer, made);
        else this.#held = buffer;
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
    this.#lex("", made, true);
  }

  #text(text: string, made: Made): void {
    if (this.#state === "content") made.content(text);
    else if (this.#suppressed) return;
    else if (this.#state === "name") this.#slots.at(-1)!.name += text;
    else if (this.#state === "arguments") this.#argument(text, made);
  }

  #mark(mark: string, made: Made): void {
    const move = this.#grammar.moves[`${this.#state} ${mark}`];
    if (move === undefined) {
      if (!this.#tokens.dropped.includes(mark)) this.#text(mark, made);
      return;
    }
    if (move.ends) this.#ends(made);
    this.#state = move.to;
    if (move.begins) this.#begins(made);
    if (move.says && !this.#suppressed) this.#argument(mark, made);
  }

  #begins(made: Made): void {
    made.tool(this.#suppressed);
    if (this.#suppressed) return;
    this.#slots.push({ id: this.#newId(), name: "", raw: "", named: false, sent: "", inText: false, appends: false });
    this.#json.begin();
  }

  /** At the end of the text: what has begun has ended. */
  #close(made: Made): void {
    if (this.#state !== "content" && this.#slots.length > 0) this.#ends(made);
    this.#state = "content";
  }

  #argument(text: string, made: Made): void {
    made.tool(false);
    if (this.#grammar.read !== null) {
      this.#readArgument(text, made);
      return;
    }
    const safe = this.#json.push(text);
    if (safe !== "") this.#jsonArgument(safe, made);
  }

  #readArgument(text: string, made: Made): void {
    const slot = this.#slots.at(-1)!;
    slot.raw += text;
    if (!slot.named) {
      this.#name(slot, made);
      return;
    }
    if (slot.appends && isPlain(text)) {
      this.#send(slot, slot.sent + dumpsString(text).slice(1, -1), made);
      return;
    }
    slot.appends = false;
    const { structural, streams, isOpenText } = this.#grammar;
    const isIdle = structural !== "" && !slot.inText && ![...structural].some((one) => text.includes(one));
    slot.inText = false;
    if (!streams || isIdle) return;
    const safe = this.#safe(slot);
    if (safe === "" || !safe.startsWith(slot.sent)) return;
    slot.inText = isOpenText?.(slot.raw) ?? false;
    // An open text: it is among the values so far, and not among those that have ended.
    slot.appends = !safe.endsWith(": ") && isPlain(text) && this.#isOpen(slot);
    if (safe.length > slot.sent.length) this.#send(slot, safe, made);
  }

  #send(slot: Slot, json: string, made: Made): void {
    made.call({ index: this.#slots.length - 1, arguments: json.slice(slot.sent.length) });
    slot.sent = json;
  }

  #isOpen({ raw, inText }: Slot): boolean {
    const { read, isOpenText } = this.#grammar;
    if (isOpenText !== undefined) return inText;
    return (read!(raw, true, {})?.size ?? 0) > (read!(raw, false, {})?.size ?? 0);
  }

  #jsonArgument(text: string, made: Made): void {
    const slot = this.#slots.at(-1)!;
    slot.raw += text;
    if (!slot.named) this.#name(slot, made);
    if (slot.named) made.call({ index: this.#slots.length - 1, arguments: text });
  }

  /** Sends the name, if there is one that is known. */
  #name(slot: Slot, made: Made): void {
    this.#settleName(slot, "");
    if (slot.name === "" || !this.#isKnown(slot.name)) return;
    slot.named = true;
    made.call({ id: slot.id, typed: true, index: this.#slots.length - 1, name: slot.name });
  }

  /** `unreadable`: the name of a call whose header holds no id. */
  #settleName(slot: Slot, unreadable: string): void {
    if (this.#grammar.trimsNames) slot.name = slot.name.trim();
    if (!this.#grammar.namesCarryIds || slot.named) return;
    // The header is the id, and the name is its part between the dot and the number.
    const id = /^.+:\d+/.exec(slot.name.trim())?.[0];
    slot.name = id === undefined ? unreadable : id.split(":")[0]!.replace(/^functions\./, "");
    if (id !== undefined) slot.id = id;
  }

  #isKnown(name: string): boolean {
    const { tools } = this.#use;
    return !this.#grammar.checksNames || tools.length === 0 || tools.some((tool) => tool.name === name);
  }

  #ends(made: Made): void {
    if (this.#suppressed) return;
    made.tool(false);
    const slot = this.#slots.at(-1)!;
    const index = this.#slots.length - 1;
    const held = this.#json.rest();
    if (held !== "") this.#jsonArgument(held, made);
    let rest = "";
    if (this.#grammar.read !== null) {
      const whole = this.#whole(slot);
      rest = whole.startsWith(slot.sent) ? whole.slice(slot.sent.length) : "";
      if (rest !== "") slot.sent = whole;
    }
    if (!slot.named) {
      this.#settleName(slot, slot.name);
      if (slot.name !== "" && this.#isKnown(slot.name)) {
        slot.named = true;
        made.call({ id: slot.id, typed: true, index, name: slot.name, arguments: rest });
        rest = "";
      }
    }
    if (rest !== "" && slot.named) made.call({ index, arguments: rest });
  }

  /** JSON of all arguments of a call that has ended. */
  #whole({ raw, name }: Slot): string {
    return pythonDumps(new Map(this.#members(raw, false, name)));
  }

  /** Values in their order, as the tool's schema wants them. */
  #members(raw: string, open: boolean, name: string): [string, PythonValue][] {
    const properties = this.#properties(name.trim());
    const members = this.#grammar.read!(raw, open, properties) ?? new Map();
    return [...members].map(([key, value]) => [key, fitted(value, properties[key])]);
  }

  /** JSON up to the last value; into it where it is text that only grows. */
  #safe({ raw, name }: Slot): string {
    const members = this.#members(raw, true, name);
    const last = members.pop();
    if (last === undefined) return "";
    const pairs = members.map(([key, value]) => `${dumpsString(key)}: ${pythonDumps(value)}, `);
    const head = `{${pairs.join("")}${dumpsString(last[0])}: `;
    const isText = typeof last[1] === "string" && streamsAsText(last[0], this.#properties(name.trim()));
    return isText ? head + dumpsString(last[1] as string).slice(0, -1) : head;
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
    this.#close(made);
    const content = this.#deltaOf(made, true)?.content ?? "";
    const calls = this.#slots.flatMap((slot): ToolCall[] => {
      const name = slot.name.trim();
      if (name === "" || !this.#isKnown(name)) return [];
      const isEmpty = slot.raw.trim() === "";
      const given = this.#grammar.read === null ? slot.raw.trim() : this.#whole({ ...slot, name });
      return [{ id: slot.id, name, arguments: isEmpty ? "{}" : given }];
    });
    return { called: calls.length > 0, calls, content: this.#contentBeside(content, calls.length > 0) || null };
  }

  #contentBeside(content: string, called: boolean): string {
    if (!called) return content;
    if (this.#grammar.trimsContent) return content.trim();
    return content.trim() === "" ? "" : content;
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
