/**
 * Splits reasoning from an answer, as the parsers of vLLM 0.33 do: `reasoning/basic_parsers.py` with
 * `reasoning/deepseek_r1_reasoning_parser.py`, or `parser/` over `parser/engine/`. All look for a token where reasoning begins
 * and one where it ends; they differ in how they cut a step of several tokens, in what they hold back, and in what they count.
 */
import type { ReasoningFormat } from "../../../text/grammar/parsers.ts";
import type { Vocabulary } from "../../../text/tokens/types.ts";
import type { Delta, ReasoningParser } from "./output.ts";
import { isText, type ReasoningRules, rulesOf } from "./reasoning-rules.ts";
import { tokensOf } from "./tokens.ts";

/** Tokens around reasoning: the first pair that the vocabulary has. `<think>` is what the built-in vocabulary has. */
const TAGS: readonly (readonly [start: string, end: string])[] = [
  ["<think>", "</think>"],
  ["<|channel>", "<channel|>"],
  ["<mm:think>", "</mm:think>"],
  ["<seed:think>", "</seed:think>"],
];

/** A parser ready for a vocabulary. */
export interface ReasoningSetup {
  readonly name: ReasoningFormat;
  readonly rules: ReasoningRules;
  readonly start: string;
  readonly end: string;
  readonly startId: number;
  readonly endId: number;
  /** A token that begins a tool call, and so ends reasoning for an engine's parser; -1: the vocabulary has none. */
  readonly toolStartId: number;
  readonly eosId: number;
  /** Tokens where a turn of the prompt begins or ends; empty: turns are not told apart. */
  readonly turnIds: ReadonlySet<number>;
}

/** Finds the parser's tokens in a vocabulary. Returns null if it lacks one. */
export function reasoningSetup(name: ReasoningFormat, vocabulary: Vocabulary): ReasoningSetup | null {
  const rules = rulesOf(name);
  const found = tokensOf(vocabulary, [...TAGS.flat(), rules.toolStart, ...rules.turns].filter(isText));
  const ids = new Map([...found].map(([id, text]) => [text, id]));
  const tags = TAGS.find((pair) => pair.every((tag) => ids.has(tag)));
  if (tags === undefined) return null;
  const [start, end] = tags;
  return {
    ...{ name, rules, start, end },
    startId: ids.get(start)!,
    endId: ids.get(end)!,
    toolStartId: ids.get(rules.toolStart ?? "") ?? -1,
    eosId: vocabulary.eosId,
    turnIds: new Set(rules.turns.flatMap((text) => ids.get(text) ?? [])),
  };
}

/** Reports whether the prompt leaves no reasoning to be done: it closes it, or the request switches it off. */
export function thinkingIsOver(
  { rules, startId, endId, toolStartId, turnIds }: ReasoningSetup,
  promptIds: ArrayLike<number>,
  thinks: boolean,
): boolean {
  const { isEngine, isSwitched } = rules;
  if (isSwitched && !thinks) return true;
  for (let i = promptIds.length - 1; i >= 0; i--) {
    const id = promptIds[i]!;
    if (id === endId || (isEngine && id === toolStartId)) return true;
    if (id === startId) return isEngine && !thinks;
    if (isEngine && turnIds.has(id)) break;
  }
  return isEngine && !thinks;
}

/** `over`: no part of the answer is reasoning. */
export function reasoningParser(setup: ReasoningSetup, thinks: boolean, over: boolean): ReasoningParser {
  return setup.rules.isEngine ? new EngineReasoning(setup, thinks, over) : new DeepSeekR1(setup, over);
}

class DeepSeekR1 implements ReasoningParser {
  ended: boolean;
  reasoningTokens = 0;
  readonly #setup: ReasoningSetup;
  #started = false;
  /** Open `<think>`s: without one nothing counts, whatever it is shown as. */
  #depth = 0;

  constructor(setup: ReasoningSetup, over: boolean) {
    this.#setup = setup;
    this.ended = over;
  }

  count(ids: readonly number[]): void {
    const { startId, endId } = this.#setup;
    for (const id of ids) {
      if (id === startId) this.#depth++;
      else if (id === endId) this.#depth = Math.max(0, this.#depth - 1);
      else if (this.#depth > 0) this.reasoningTokens++;
    }
  }

  push(text: string, ids: readonly number[]): Delta | null {
    const { start, end: endTag, startId, endId } = this.#setup;
    const starts = ids.includes(startId);
    const ends = ids.includes(endId);
    const startedBefore = this.#started;
    this.#started ||= starts;
    this.ended = ends;
    if (ids.length === 1 && (starts || ends)) return null;
    if (!ends) return { reasoning: text, calls: [] };
    // Python's slices count -1, for what was not found, from the end; so do these.
    const end = text.indexOf(endTag);
    const from = starts && !startedBefore ? text.indexOf(start) + start.length : 0;
    const content = text.slice(end + endTag.length);
    return { content: content === "" ? null : content, reasoning: text.slice(from, end), calls: [] };
  }

  extract(text: string) {
    const { start: startTag, end: endTag } = this.#setup;
    const start = text.indexOf(startTag);
    const output = start < 0 ? text : text.slice(start + startTag.length);
    const end = output.indexOf(endTag);
    if (end < 0) return { reasoning: output, content: null };
    return { reasoning: output.slice(0, end), content: output.slice(end + endTag.length) || null };
  }
}

/** The reasoning of the declarative engine. */
class EngineReasoning implements ReasoningParser {
  ended: boolean;
  reasoningTokens = 0;
  readonly #setup: ReasoningSetup;
  readonly #thinks: boolean;
  readonly #closed: boolean;
  /** Text that may be the beginning of one of these is held back. */
  readonly #marks: readonly string[];
  #counts: boolean;
  #held = "";
  /** White space at the end of what was shown, until more follows. */
  #blanks = "";
  /** Tags that came as tokens, and whose text is still to be passed over. */
  #tags: string[] = [];

  constructor(setup: ReasoningSetup, thinks: boolean, over: boolean) {
    this.#setup = setup;
    this.#thinks = thinks;
    this.#marks = [setup.start, setup.end, ...setup.rules.marks];
    this.ended = over;
    // Without marks of turns a closed block may be of an earlier one.
    this.#closed = over && setup.turnIds.size > 0;
    this.#counts = thinks && !this.#closed;
  }

  count(ids: readonly number[]): void {
    const { startId, endId, toolStartId, eosId } = this.#setup;
    for (const id of ids) {
      if (id === endId || id === toolStartId) this.#counts = false;
      else if (this.#counts && id !== startId && id !== eosId) this.reasoningTokens++;
    }
  }

  push(text: string, ids: readonly number[]): Delta | null {
    const { start, end, startId, endId, toolStartId, rules } = this.#setup;
    for (const id of ids) {
      if (id === startId) this.#tags.push(start);
      else if (id === endId) this.#tags.push(end);
      else if (id === toolStartId) this.#tags.push(rules.toolStart!);
    }
    let left = this.#held + text;
    let reasoning = "";
    while (this.#tags.length > 0) {
      const tag = this.#tags[0]!;
      const at = left.indexOf(tag);
      if (at < 0) {
        // Text that lags behind its tokens waits for the whole tag.
        this.#held = left;
        return this.#shown(reasoning, "");
      }
      reasoning += left.slice(0, at);
      left = left.slice(at + tag.length);
      this.#tags.shift();
      if (tag === start) continue;
      this.ended = true;
      this.#held = "";
      // The call begins what follows the reasoning.
      return this.#shown(reasoning, tag === rules.toolStart ? tag + left : left);
    }
    const kept = this.#keptBack(left);
    this.#held = left.slice(left.length - kept);
    return this.#shown(reasoning + left.slice(0, left.length - kept), "");
  }

  finish(): Delta | null {
    const held = this.#held;
    this.#held = "";
    // As there: white space in front of it that waited is dropped.
    return piece(held, "");
  }

  /** White space at the end waits for more, and is dropped where reasoning ends (`_strip_trailing_reasoning`). */
  #shown(reasoning: string, content: string): Delta | null {
    if (!this.#setup.rules.strips || reasoning === "") return piece(reasoning, content);
    const whole = this.#blanks + reasoning;
    const trimmed = whole.trimEnd();
    this.#blanks = whole.slice(trimmed.length);
    return piece(trimmed, content);
  }

  extract(text: string) {
    const { start, end: endTag, rules } = this.#setup;
    if (!this.#thinks) return { reasoning: null, content: text };
    if (this.#closed) return { reasoning: null, content: text.replaceAll(endTag, "") || null };
    const ends = [endTag, rules.toolStart].filter(isText).map((tag) => text.indexOf(tag));
    const end = Math.min(...ends.map((at) => (at < 0 ? text.length : at)));
    const thought = text.slice(0, end).replaceAll(start, "");
    const reasoning = rules.strips ? thought.trimEnd() : thought;
    return { reasoning: reasoning || null, content: text.slice(end).replaceAll(endTag, "") || null };
  }

  /** Counts characters at the end of a text that may be the beginning of a mark. */
  #keptBack(text: string): number {
    const longest = Math.max(...this.#marks.map((mark) => mark.length - 1));
    for (let at = Math.max(0, text.length - longest); at < text.length; at++) {
      const tail = text.slice(at);
      if (this.#marks.some((mark) => mark.length > tail.length && mark.startsWith(tail))) return tail.length;
    }
    return 0;
  }
}

function piece(reasoning: string, content: string): Delta | null {
  if (reasoning === "" && content === "") return null;
  return { ...(content === "" ? {} : { content }), ...(reasoning === "" ? {} : { reasoning }), calls: [] };
}
