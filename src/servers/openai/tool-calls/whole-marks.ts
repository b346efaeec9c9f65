/**
 * Wraps a parser so that it receives each mark in one piece. Some of vLLM's parsers expect that marks are single tokens. With
 * the built-in vocabulary, marks consist of several tokens, and such a parser would show the beginning of a mark as text.
 */

import type { Delta, ExtractedCalls, ToolParser } from "./output.ts";
import { overlap } from "./parser-parts.ts";

/** A parser whose marks arrive in one piece. */
export class WholeMarks implements ToolParser {
  readonly engineBased: boolean;
  readonly #parser: ToolParser;
  readonly #marks: readonly string[];
  /** Text that may be the beginning of a mark. */
  #held = "";

  constructor(parser: ToolParser, marks: readonly string[]) {
    this.engineBased = parser.engineBased;
    this.#parser = parser;
    this.#marks = marks;
  }

  push(text: string, ids: readonly number[]): Delta | null {
    const waiting = this.#held + text;
    const withheld = Math.max(...this.#marks.map((mark) => overlap(waiting, mark)));
    this.#held = waiting.slice(waiting.length - withheld);
    return withheld === waiting.length ? null : this.#parser.push(waiting.slice(0, waiting.length - withheld), ids);
  }

  finish(): Delta | null {
    const held = this.#held;
    this.#held = "";
    return held === "" ? null : this.#parser.push(held, []);
  }

  unstreamed(): string {
    return this.#parser.unstreamed?.() ?? "";
  }

  extract(text: string): ExtractedCalls {
    return this.#parser.extract(text);
  }
}
