/**
 * Which part of an answer is thinking? The parsers `deepseek_r1` and `qwen3` of vLLM 0.33: `reasoning/basic_parsers.py`,
 * `reasoning/deepseek_r1_reasoning_parser.py`, `parser/qwen3.py` over `parser/engine/`. Both look for the tokens `<think>`
 * and `</think>`; they differ in how they cut a step of several tokens, and in what they count.
 */
import type { ReasoningName } from "../config/parsers.ts";
import type { Vocabulary } from "../content/types.ts";
import type { Delta, ReasoningParser } from "./output.ts";
import { tokensOf } from "./tokens.ts";

const START = "<think>";
const END = "</think>";
const TOOL_START = "<tool_call>";
const TURNS = ["<|im_start|>", "<|im_end|>"];

/** A parser ready for a vocabulary. */
export interface ReasoningSetup {
  readonly name: ReasoningName;
  readonly startId: number;
  readonly endId: number;
  /** A token that ends thinking without `</think>` for qwen3; -1: the vocabulary has none. */
  readonly toolStartId: number;
  readonly eosId: number;
  /** Where a turn of the prompt begins or ends, for qwen3. */
  readonly turnIds: ReadonlySet<number>;
}

/** The parser's tokens in a vocabulary; null: it lacks one. */
export function reasoningSetup(name: ReasoningName, vocabulary: Vocabulary): ReasoningSetup | null {
  const found = tokensOf(vocabulary, [START, END, TOOL_START, ...TURNS]);
  const ids = new Map([...found].map(([id, text]) => [text, id]));
  const [startId, endId, toolStartId = -1] = [START, END, TOOL_START].map((text) => ids.get(text));
  if (startId === undefined || endId === undefined) return null;
  const turnIds = new Set([...found.keys()].filter((id) => TURNS.includes(found.get(id)!)));
  return { name, startId, endId, toolStartId, eosId: vocabulary.eosId, turnIds };
}

/** Whether the prompt leaves no thinking to be done: it ends it itself, or the request switches it off. */
export function thinkingIsOver(
  { name, startId, endId, toolStartId, turnIds }: ReasoningSetup,
  promptIds: ArrayLike<number>,
  thinks: boolean,
): boolean {
  const qwen = name === "qwen3";
  for (let i = promptIds.length - 1; i >= 0; i--) {
    const id = promptIds[i]!;
    if (id === endId || (qwen && id === toolStartId)) return true;
    if (id === startId) return qwen && !thinks;
    if (qwen && turnIds.has(id)) break;
  }
  return qwen && !thinks;
}

/** `over`: nothing of the answer is thinking. */
export function reasoningParser(setup: ReasoningSetup, thinks: boolean, over: boolean): ReasoningParser {
  return setup.name === "qwen3" ? new Qwen3(setup, thinks, over) : new DeepSeekR1(setup, over);
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
    const { startId, endId } = this.#setup;
    const starts = ids.includes(startId);
    const ends = ids.includes(endId);
    const startedBefore = this.#started;
    this.#started ||= starts;
    this.ended = ends;
    if (ids.length === 1 && (starts || ends)) return null;
    if (!ends) return { reasoning: text, calls: [] };
    // Python's slices count -1, for what was not found, from the end; so do these.
    const end = text.indexOf(END);
    const from = starts && !startedBefore ? text.indexOf(START) + START.length : 0;
    const content = text.slice(end + END.length);
    return { content: content === "" ? null : content, reasoning: text.slice(from, end), calls: [] };
  }

  extract(text: string) {
    const start = text.indexOf(START);
    const output = start < 0 ? text : text.slice(start + START.length);
    const end = output.indexOf(END);
    if (end < 0) return { reasoning: output, content: null };
    return { reasoning: output.slice(0, end), content: output.slice(end + END.length) || null };
  }
}

/** What the lexer waits for: text that may be the beginning of one of these is kept back. */
const LITERALS = [START, END, TOOL_START, "</tool_call>", "<function=", "</function>", "<parameter=", "</parameter>"];

class Qwen3 implements ReasoningParser {
  ended: boolean;
  reasoningTokens = 0;
  readonly #setup: ReasoningSetup;
  readonly #thinks: boolean;
  readonly #closed: boolean;
  #counts: boolean;
  #held = "";
  /** Tags that came as tokens, and whose text is still to be passed over. */
  #tags: string[] = [];

  constructor(setup: ReasoningSetup, thinks: boolean, over: boolean) {
    this.#setup = setup;
    this.#thinks = thinks;
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
    const { startId, endId, toolStartId } = this.#setup;
    for (const id of ids) {
      if (id === startId) this.#tags.push(START);
      else if (id === endId) this.#tags.push(END);
      else if (id === toolStartId) this.#tags.push(TOOL_START);
    }
    let left = this.#held + text;
    let reasoning = "";
    while (this.#tags.length > 0) {
      const tag = this.#tags[0]!;
      const at = left.indexOf(tag);
      if (at < 0) {
        // Text that lags behind its tokens waits for the whole tag.
        this.#held = left;
        return piece(reasoning, "");
      }
      reasoning += left.slice(0, at);
      left = left.slice(at + tag.length);
      this.#tags.shift();
      if (tag === START) continue;
      this.ended = true;
      this.#held = "";
      // The call begins what follows the thinking.
      return piece(reasoning, tag === TOOL_START ? tag + left : left);
    }
    const kept = keptBack(left);
    this.#held = left.slice(left.length - kept);
    return piece(reasoning + left.slice(0, left.length - kept), "");
  }

  finish(): Delta | null {
    const held = this.#held;
    this.#held = "";
    return piece(held, "");
  }

  extract(text: string) {
    if (!this.#thinks) return { reasoning: null, content: text };
    if (this.#closed) return { reasoning: null, content: text.replaceAll(END, "") || null };
    const end = text.search(/<\/think>|<tool_call>/);
    const thought = end < 0 ? text : text.slice(0, end);
    const after = end < 0 ? "" : text.slice(end);
    return { reasoning: thought.replaceAll(START, "") || null, content: after.replaceAll(END, "") || null };
  }
}

function piece(reasoning: string, content: string): Delta | null {
  if (reasoning === "" && content === "") return null;
  return { ...(content === "" ? {} : { content }), ...(reasoning === "" ? {} : { reasoning }), calls: [] };
}

/** How much of a text's end may be the beginning of a tag. */
function keptBack(text: string): number {
  const at = text.lastIndexOf("<");
  if (at < 0) return 0;
  const tail = text.slice(at);
  return LITERALS.some((literal) => literal.length > tail.length && literal.startsWith(tail)) ? tail.length : 0;
}
