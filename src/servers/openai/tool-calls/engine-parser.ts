/**
 * Reads tool calls by a grammar, as the declarative engine of vLLM 0.33 does (`parser/engine/`). Streams arguments as JSON. Of an
 * incomplete value, it sends the part that can no longer change.
 */
import { dumpsString, pythonDumps } from "../../pydantic/dumps.ts";
import type { PythonValue } from "../../pydantic/value.ts";
import { coerceValue, streamsAsText } from "./argument-types.ts";
import type { CallGrammar, CallState } from "./grammar.ts";
import { isPlain, OpenJson } from "./growing-text.ts";
import type { CallDelta, Delta, ExtractedCalls, ToolCall, ToolParser, ToolUse } from "./output.ts";
import { addCall, propertiesOf } from "./parser-parts.ts";

/** The state of a tool call. */
interface CallSlot {
  id: string;
  /** The text between the marks around the call's name. */
  name: string;
  /** The arguments as the model wrote them. */
  raw: string;
  /** True if the delta with the name was sent. */
  named: boolean;
  /** The part of the arguments' JSON that was sent. */
  sent: string;
  /** True if `raw` ends in an incomplete string, so that each further piece is read at once. */
  inText: boolean;
  /** True if an incomplete string at the end of `raw` was fully sent. A piece without special characters is then sent at once. */
  appends: boolean;
}

/** The tokens of a vocabulary that matter to a grammar. */
interface GrammarTokens {
  /** The grammar's tags by token id. */
  readonly tags: ReadonlyMap<number, string>;
  /** Texts of the other special tokens, which are removed from the answer. */
  readonly dropped: readonly string[];
}

/** The tool parser for all formats that have a grammar (see grammars.ts). */
export class EngineParser implements ToolParser {
  readonly engineBased = true;
  readonly #marks: readonly string[];
  readonly #firsts: ReadonlySet<string>;
  /** True if calls are removed from the answer (`tool_choice` none). */
  readonly #suppressed: boolean;
  #state: CallState = "content";
  /** Text that may be the beginning of a mark. */
  #held = "";
  #slots: CallSlot[] = [];
  /** Content that waits to be sent: white space before other content, or text after a call. */
  #deferred = "";
  /** True once content other than white space was sent. */
  #hasContent = false;
  #sawIds = false;
  /** The current call's arguments, if the model writes them as JSON. */
  readonly #json = new OpenJson();

  constructor(
    private readonly grammar: CallGrammar,
    private readonly newId: () => string,
    private readonly use: ToolUse,
    private readonly tokens: GrammarTokens,
  ) {
    this.#marks = [...grammar.tags, ...grammar.marks, ...tokens.dropped].sort((a, b) => b.length - a.length);
    this.#firsts = new Set(this.#marks.map((mark) => mark[0]!));
    this.#suppressed = use.choice === "none" && use.tools.length > 0;
  }

  push(text: string, ids: readonly number[]): Delta | null {
    this.#sawIds ||= ids.length > 0;
    const parts = new OutputParts();
    const tags = ids.map((id) => this.tokens.tags.get(id)).filter((tag) => tag !== undefined);
    let rest = text;
    for (const tag of tags) {
      const at = rest.indexOf(tag);
      if (at < 0) continue;
      this.#lex(rest.slice(0, at), parts);
      this.#flush(parts);
      this.#mark(tag, parts);
      rest = rest.slice(at + tag.length);
    }
    this.#lex(rest, parts);
    return this.#deltaOf(parts, false);
  }

  finish(): Delta | null {
    const parts = new OutputParts();
    this.#flush(parts);
    this.#close(parts);
    return this.#deltaOf(parts, true);
  }

  /** Reports whether a mark in the text counts. Once ids were seen, marks that are single tokens are recognized by id only. */
  #isMark(mark: string): boolean {
    return !this.#sawIds || ![...this.tokens.tags.values()].includes(mark);
  }

  /** Splits text at marks. `final`: no text follows that could complete a mark. */
  #lex(text: string, parts: OutputParts, final = false): void {
    let buffer = this.#held + text;
    this.#held = "";
    while (buffer !== "") {
      const isBeginning = this.#marks.some((known) => known.length > buffer.length && known.startsWith(buffer));
      const mark = this.#marks.find((known) => buffer.startsWith(known));
      if (isBeginning && (!final || mark === undefined)) {
        if (final) this.#text(buffer, parts);
        else this.#held = buffer;
        return;
      }
      if (mark !== undefined) {
        if (this.#isMark(mark)) this.#mark(mark, parts);
        else this.#text(mark, parts);
        buffer = buffer.slice(mark.length);
        continue;
      }
      const end = this.#boundary(buffer);
      this.#text(buffer.slice(0, end), parts);
      buffer = buffer.slice(end);
    }
  }

  /** Returns the next offset at which a mark, or the beginning of a mark, may be. */
  #boundary(buffer: string): number {
    for (let at = 1; at < buffer.length; at++) {
      if (!this.#firsts.has(buffer[at]!)) continue;
      const rest = buffer.slice(at);
      if (this.#marks.some((mark) => rest.startsWith(mark) || mark.startsWith(rest))) return at;
    }
    return buffer.length;
  }

  #flush(parts: OutputParts): void {
    this.#lex("", parts, true);
  }

  #text(text: string, parts: OutputParts): void {
    if (this.#state === "content") parts.content(text);
    else if (this.#suppressed) return;
    else if (this.#state === "name") this.#slots.at(-1)!.name += text;
    else if (this.#state === "arguments") this.#argument(text, parts);
  }

  #mark(mark: string, parts: OutputParts): void {
    const move = this.grammar.moves[`${this.#state} ${mark}`];
    if (move === undefined) {
      if (!this.tokens.dropped.includes(mark)) this.#text(mark, parts);
      return;
    }
    if (move.ends) this.#ends(parts);
    this.#state = move.to;
    if (move.begins) this.#begins(parts);
    if (move.isArgument && !this.#suppressed) this.#argument(mark, parts);
  }

  #begins(parts: OutputParts): void {
    parts.tool(this.#suppressed);
    if (this.#suppressed) return;
    this.#slots.push({ id: this.newId(), name: "", raw: "", named: false, sent: "", inText: false, appends: false });
    this.#json.begin();
  }

  /** Ends the current call at the end of the text. */
  #close(parts: OutputParts): void {
    if (this.#state !== "content" && this.#slots.length > 0) this.#ends(parts);
    this.#state = "content";
  }

  #argument(text: string, parts: OutputParts): void {
    parts.tool(false);
    if (this.grammar.read !== null) {
      this.#readArgument(text, parts);
      return;
    }
    const safe = this.#json.push(text);
    if (safe !== "") this.#jsonArgument(safe, parts);
  }

  #readArgument(text: string, parts: OutputParts): void {
    const slot = this.#slots.at(-1)!;
    slot.raw += text;
    if (!slot.named) {
      this.#name(slot, parts);
      return;
    }
    if (slot.appends && isPlain(text)) {
      this.#send(slot, slot.sent + dumpsString(text).slice(1, -1), parts);
      return;
    }
    slot.appends = false;
    const { structural, streams, isOpenText } = this.grammar;
    const isIdle = structural !== "" && !slot.inText && ![...structural].some((character) => text.includes(character));
    slot.inText = false;
    if (!streams || isIdle) return;
    const safe = this.#safe(slot);
    if (safe === "" || !safe.startsWith(slot.sent)) return;
    slot.inText = isOpenText?.(slot.raw) ?? false;
    // The next piece can be sent at once only if the last value is an incomplete string, all of which was sent.
    slot.appends = !safe.endsWith(": ") && isPlain(text) && this.#isOpen(slot);
    if (safe.length > slot.sent.length) this.#send(slot, safe, parts);
  }

  #send(slot: CallSlot, json: string, parts: OutputParts): void {
    addCall(parts.calls, { index: this.#slots.length - 1, arguments: json.slice(slot.sent.length) });
    slot.sent = json;
  }

  #isOpen({ raw, inText }: CallSlot): boolean {
    const { read, isOpenText } = this.grammar;
    if (isOpenText !== undefined) return inText;
    return (read!(raw, true, {})?.size ?? 0) > (read!(raw, false, {})?.size ?? 0);
  }

  #jsonArgument(text: string, parts: OutputParts): void {
    const slot = this.#slots.at(-1)!;
    slot.raw += text;
    if (!slot.named) this.#name(slot, parts);
    if (slot.named) addCall(parts.calls, { index: this.#slots.length - 1, arguments: text });
  }

  /** Sends the name once it is complete, unless the grammar requires it to be a tool of the request and it is not. */
  #name(slot: CallSlot, parts: OutputParts): void {
    this.#settleName(slot, "");
    if (slot.name === "" || !this.#isKnown(slot.name)) return;
    slot.named = true;
    addCall(parts.calls, { id: slot.id, typed: true, index: this.#slots.length - 1, name: slot.name });
  }

  /** Derives name and id from a call's header. `unreadable`: the name if the header contains no id. */
  #settleName(slot: CallSlot, unreadable: string): void {
    if (this.grammar.trimsNames) slot.name = slot.name.trim();
    if (!this.grammar.namesCarryIds || slot.named) return;
    // The header `functions.NAME:NUMBER` is the id.
    const id = /^.+:\d+/.exec(slot.name.trim())?.[0];
    slot.name = id === undefined ? unreadable : id.split(":")[0]!.replace(/^functions\./, "");
    if (id !== undefined) slot.id = id;
  }

  #isKnown(name: string): boolean {
    const { tools } = this.use;
    return !this.grammar.checksNames || tools.length === 0 || tools.some((tool) => tool.name === name);
  }

  #ends(parts: OutputParts): void {
    if (this.#suppressed) return;
    parts.tool(false);
    const slot = this.#slots.at(-1)!;
    const index = this.#slots.length - 1;
    const held = this.#json.rest();
    if (held !== "") this.#jsonArgument(held, parts);
    let rest = "";
    if (this.grammar.read !== null) {
      const whole = this.#whole(slot);
      rest = whole.startsWith(slot.sent) ? whole.slice(slot.sent.length) : "";
      if (rest !== "") slot.sent = whole;
    }
    if (!slot.named) {
      this.#settleName(slot, slot.name);
      if (slot.name !== "" && this.#isKnown(slot.name)) {
        slot.named = true;
        addCall(parts.calls, { id: slot.id, typed: true, index, name: slot.name, arguments: rest });
        rest = "";
      }
    }
    if (rest !== "" && slot.named) addCall(parts.calls, { index, arguments: rest });
  }

  /** Returns the JSON of all arguments of a complete call. */
  #whole({ raw, name }: CallSlot): string {
    return pythonDumps(new Map(this.#members(raw, false, name)));
  }

  /** Returns the arguments in their order, converted to the tool's schema. `open`: includes an incomplete last value. */
  #members(raw: string, open: boolean, name: string): [string, PythonValue][] {
    const properties = propertiesOf(this.use, name.trim());
    const members = this.grammar.read!(raw, open, properties) ?? new Map();
    return [...members].map(([key, value]) => [key, coerceValue(value, properties[key])]);
  }

  /** Returns the JSON that cannot change any more: up to the last value, and into it if it is a string. */
  #safe({ raw, name }: CallSlot): string {
    const members = this.#members(raw, true, name);
    const last = members.pop();
    if (last === undefined) return "";
    const pairs = members.map(([key, value]) => `${dumpsString(key)}: ${pythonDumps(value)}, `);
    const head = `{${pairs.join("")}${dumpsString(last[0])}: `;
    const isText = typeof last[1] === "string" && streamsAsText(last[0], propertiesOf(this.use, name.trim()));
    return isText ? head + dumpsString(last[1] as string).slice(0, -1) : head;
  }

  /** Makes the delta of an output. Keeps white space back before the first other content, and content after a call. */
  #deltaOf(parts: OutputParts, finished: boolean): Delta | null {
    let content = parts.before;
    if (parts.after !== "" || this.#deferred !== "") {
      if (!parts.toolSeen || parts.calls.length === 0) {
        content = this.#deferred + content + parts.after;
        this.#deferred = "";
      } else this.#deferred += parts.after;
    }
    if (!this.#hasContent && content !== "") {
      if (content.trim() !== "") this.#hasContent = true;
      else if (this.#slots.length > 0) content = "";
      else if (!finished) {
        this.#deferred = content;
        content = "";
      }
    }
    if (content === "" && parts.calls.length === 0) return null;
    return { ...(content === "" ? {} : { content }), calls: parts.calls };
  }

  extract(text: string): ExtractedCalls {
    const parts = new OutputParts();
    this.#lex(text, parts);
    this.#flush(parts);
    this.#close(parts);
    const content = this.#deltaOf(parts, true)?.content ?? "";
    const calls = this.#slots.flatMap((slot): ToolCall[] => {
      const name = slot.name.trim();
      if (name === "" || !this.#isKnown(name)) return [];
      const isEmpty = slot.raw.trim() === "";
      const json = this.grammar.read === null ? slot.raw.trim() : this.#whole({ ...slot, name });
      return [{ id: slot.id, name, arguments: isEmpty ? "{}" : json }];
    });
    return { called: calls.length > 0, calls, content: this.#contentBeside(content, calls.length > 0) || null };
  }

  #contentBeside(content: string, called: boolean): string {
    if (!called) return content;
    if (this.grammar.trimsContent) return content.trim();
    return content.trim() === "" ? "" : content;
  }
}

/** The content and calls that one output adds. */
class OutputParts {
  /** Content before any part of a call. */
  before = "";
  /** Content after some part of a call. */
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
}
