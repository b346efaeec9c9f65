/**
 * Splits reasoning from an answer with one of two parsers of vLLM 0.33: `reasoning/basic_parsers.py` with
 * `reasoning/deepseek_r1_reasoning_parser.py`, or `parser/engine/`. Both search for a token at the beginning and a token at the
 * end. They differ in how they split a step of several tokens, which text they withhold, and which tokens they count.
 */
import type { ReasoningFormat } from "../../../text/grammar/parsers.ts";
import type { Vocabulary } from "../../../text/tokens/types.ts";
import type { Delta, ReasoningParser } from "./output.ts";
import { isText, type ReasoningRules, rulesOf } from "./reasoning-rules.ts";
import { tokensOf } from "./tokens.ts";

/** Pairs of tokens around reasoning. The first pair in the vocabulary is used. The built-in vocabulary has `<think>`. */
const TAGS: readonly (readonly [start: string, end: string])[] = [
  ["<think>", "</think>"],
  ["<|channel>", "<channel|>"],
  ["<mm:think>", "</mm:think>"],
  ["<seed:think>", "</seed:think>"],
];

/** A reasoning parser with the ids of its tokens. */
export interface ReasoningSetup {
  readonly name: ReasoningFormat;
  readonly rules: ReasoningRules;
  readonly start: string;
  readonly end: string;
  readonly startId: number;
  readonly endId: number;
  /** Id of the token that begins a tool call, which ends reasoning for an engine's parser. -1: none. */
  readonly toolStartId: number;
  readonly eosId: number;
  /** Ids of tokens at which a turn of the prompt begins or ends. Empty: turns cannot be distinguished. */
  readonly turnIds: ReadonlySet<number>;
}

/** Finds the parser's tokens in a vocabulary. Returns null if it has no pair of tokens around reasoning. */
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

/** Reports whether the answer has no reasoning, because the prompt has closed it or the request has switched it off. */
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

/** Creates the parser of a choice. `over`: no part of the answer is reasoning. */
export function reasoningParser(setup: ReasoningSetup, thinks: boolean, over: boolean): ReasoningParser {
  return setup.rules.isEngine ? new EngineReasoning(setup, thinks, over) : new DeepSeekR1(setup, over);
}

/** The parser of DeepSeek R1. */
class DeepSeekR1 implements ReasoningParser {
  ended: boolean;
  reasoningTokens = 0;
  readonly #setup: ReasoningSetup;
  /** True once the start token of the reasoning was found. */
  #started = false;
  /** Number of start tokens minus end tokens. At 0, tokens do not count as reasoning, even if they are shown as reasoning. */
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
    // An offset of -1 (not found) means the last character, as in Python's slices.
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

/** The parser of the declarative engine. */
class EngineReasoning implements ReasoningParser {
  ended: boolean;
  reasoningTokens = 0;
  readonly #setup: ReasoningSetup;
  readonly #thinks: boolean;
  /** True if the prompt has closed the reasoning of this turn. */
  readonly #closed: boolean;
  /** Text that may be the beginning of one of these marks is withheld. */
  readonly #marks: readonly string[];
  /** True while tokens count as reasoning. */
  #counts: boolean;
  #held = "";
  /** White space at the end of the reasoning, until other text follows. */
  #blanks = "";
  /** Tags that were found as tokens and whose text is still to be skipped. */
  #tags: string[] = [];

  constructor(setup: ReasoningSetup, thinks: boolean, over: boolean) {
    this.#setup = setup;
    this.#thinks = thinks;
    this.#marks = [setup.start, setup.end, ...setup.rules.marks];
    this.ended = over;
    // Without tokens between turns, the closed reasoning may belong to an earlier turn.
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
        // The text of the tag is not complete yet, because the detokenizer lags behind the tokens.
        this.#held = left;
        return this.#shown(reasoning, "");
      }
      reasoning += left.slice(0, at);
      left = left.slice(at + tag.length);
      this.#tags.shift();
      if (tag === start) continue;
      this.ended = true;
      this.#held = "";
      // The mark of a call belongs to the text after the reasoning.
      return this.#shown(reasoning, tag === rules.toolStart ? tag + left : left);
    }
    const withheld = this.#withheldIn(left);
    this.#held = left.slice(left.length - withheld);
    return this.#shown(reasoning + left.slice(0, left.length - withheld), "");
  }

  finish(): Delta | null {
    const held = this.#held;
    this.#held = "";
    // Like vLLM, drop the white space before the withheld text.
    return piece(held, "");
  }

  /** Makes a delta. Withholds white space at the end of the reasoning, as `_strip_trailing_reasoning` does. */
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
  #withheldIn(text: string): number {
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
