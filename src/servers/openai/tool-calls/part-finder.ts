/** Splits the text of an ordered answer into its known parts. Only the parts with tool calls are parsed. */
import type { AnswerPart } from "../../../text/answers/answer-parts.ts";
import type { CallFinder } from "./answer-parser.ts";
import type { Delta, Message } from "./output.ts";

/** Text that belongs to one part of the answer. */
interface Piece {
  readonly kind: AnswerPart["kind"];
  readonly text: string;
  /** Index of the part. */
  readonly part: number;
}

/** Splits the text of one choice. */
export class PartFinder {
  /** Number of tokens so far. */
  #tokens = 0;
  /** Index of the current part. */
  #at = 0;
  /** Number of characters of the current part so far. */
  #passed = 0;

  constructor(
    private readonly parts: readonly AnswerPart[],
    /** The tool parser. null: the server has none, so that calls are content. */
    private readonly tools: CallFinder | null,
  ) {}

  /** Splits the text of an output. Returns null if it adds nothing. Text after the last part belongs to the last part. */
  push(text: string, ids: readonly number[], finished: boolean): Delta | null {
    const before = this.#tokens;
    this.#tokens += ids.length;
    const delta: Delta = { calls: [] };
    for (const { kind, text: piece, part } of this.#piecesOf(text)) {
      if (kind === "calls" && this.tools !== null)
        add(delta, this.tools.push(piece, this.#idsIn(part, ids, before), false));
      else if (kind === "reasoning") delta.reasoning = (delta.reasoning ?? "") + piece;
      else delta.content = (delta.content ?? "") + piece;
    }
    if (finished && this.#hasCalls) add(delta, this.tools?.push("", [], true) ?? null);
    return text === "" && delta.calls.length === 0 && !delta.content ? null : delta;
  }

  /** Returns the message of a whole answer: all reasoning, all content, all calls. */
  extract(text: string, ids: readonly number[]): Message {
    this.#tokens += ids.length;
    const pieces = [...this.#piecesOf(text)];
    const textOf = (...kinds: readonly AnswerPart["kind"][]) => {
      const matching = pieces.filter(({ kind }) => kinds.includes(kind));
      return matching.length === 0 ? null : matching.map((piece) => piece.text).join("");
    };
    const reasoning = textOf("reasoning");
    const callText = textOf("calls");
    if (this.tools === null || callText === null) return { reasoning, content: textOf("content", "calls"), calls: [] };
    const { content: rest, calls } = this.tools.message(callText);
    const content = textOf("content");
    return { reasoning, content: rest === null ? content : (content ?? "") + rest, calls };
  }

  /** Number of reasoning tokens so far. */
  get reasoningTokens(): number {
    let [left, reasoning] = [this.#tokens, 0];
    for (const { kind, tokens = 0 } of this.parts) {
      if (kind === "reasoning") reasoning += Math.min(left, tokens);
      left -= Math.min(left, tokens);
    }
    return reasoning;
  }

  get #hasCalls(): boolean {
    return this.parts.some(({ kind }) => kind === "calls");
  }

  /** Splits a text of the output at the ends of the answer's parts (reasoning, content, calls). */
  *#piecesOf(text: string): Generator<Piece, void> {
    for (let from = 0; from < text.length; ) {
      this.#skipPassed();
      const part = this.#at;
      const isLast = part === this.parts.length - 1;
      const { kind, text: whole } = this.parts[part]!;
      const piece = text.slice(from, isLast ? text.length : from + whole.length - this.#passed);
      this.#passed += piece.length;
      from += piece.length;
      yield { kind, text: piece, part };
    }
  }

  /** Returns the token ids of an output that belong to one part. `before`: number of tokens in earlier outputs. */
  #idsIn(part: number, ids: readonly number[], before: number): readonly number[] {
    let from = -before;
    for (let at = 0; at < part; at++) from += this.parts[at]!.tokens ?? 0;
    const isLast = part === this.parts.length - 1;
    const to = isLast ? ids.length : from + (this.parts[part]!.tokens ?? 0);
    return ids.slice(Math.max(0, from), Math.max(0, to));
  }

  /** Moves to the first part that is not complete. */
  #skipPassed(): void {
    while (this.#at < this.parts.length - 1 && this.#passed >= this.parts[this.#at]!.text.length) {
      this.#at++;
      this.#passed = 0;
    }
  }
}

function add(delta: Delta, more: Delta | null): void {
  if (more === null) return;
  if (more.content) delta.content = (delta.content ?? "") + more.content;
  delta.calls.push(...more.calls);
}
