/** Splits the text of an ordered answer into its parts, in place of parsers of reasoning and tool calls. */
import type { AnswerPart } from "../content/answer-parts.ts";
import type { Delta, Message } from "./output.ts";

/** One per choice. */
export class PartFinder {
  /** Tokens that were pushed. */
  #tokens = 0;
  readonly #parts: readonly AnswerPart[];
  #at = 0;
  /** Characters of the current part that have passed. */
  #passed = 0;

  constructor(parts: readonly AnswerPart[]) {
    this.#parts = parts;
  }

  /** Returns what an output adds; null if it has no text. Text after the last part belongs to that part. */
  push(text: string, ids: readonly number[]): Delta | null {
    this.#tokens += ids.length;
    if (text === "") return null;
    const delta: Delta = { calls: [] };
    for (let from = 0; from < text.length; ) {
      this.#skipPassed();
      const isLast = this.#at === this.#parts.length - 1;
      const left = this.#parts[this.#at]!.text.length - this.#passed;
      const piece = text.slice(from, isLast ? text.length : from + left);
      const kind = this.#kind;
      delta[kind] = (delta[kind] ?? "") + piece;
      this.#passed += piece.length;
      from += piece.length;
    }
    return delta;
  }

  /** Returns the message of a whole answer: all reasoning, and all content. */
  extract(text: string, ids: readonly number[]): Message {
    const { reasoning = null, content = null } = this.push(text, ids) ?? {};
    return { reasoning, content, calls: [] };
  }

  /** Tokens of the parts of reasoning that were pushed. */
  get reasoningTokens(): number {
    let [left, reasoning] = [this.#tokens, 0];
    for (const { kind, tokens = 0 } of this.#parts) {
      if (kind === "reasoning") reasoning += Math.min(left, tokens);
      left -= Math.min(left, tokens);
    }
    return reasoning;
  }

  get #kind(): AnswerPart["kind"] {
    return this.#parts[this.#at]!.kind;
  }

  #skipPassed(): void {
    while (this.#at < this.#parts.length - 1 && this.#passed >= this.#parts[this.#at]!.text.length) {
      this.#at++;
      this.#passed = 0;
    }
  }
}
