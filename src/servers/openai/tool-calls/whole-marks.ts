/**
 * Gives a parser its marks whole. vLLM's parsers of some formats take each mark for one token; a vocabulary that spells them with
 * several, as the built-in one, would show the beginning of a mark as text.
 */
import { overlap } from "./hermes.ts";
import type { Delta, Extracted, ToolParser } from "./output.ts";

export class WholeMarks implements ToolParser {
  readonly engineBased: boolean;
  readonly #parser: ToolParser;
  readonly #marks: readonly string[];
  #held = "";

  constructor(parser: ToolParser, marks: readonly string[]) {
    this.engineBased = parser.engineBased;
    this.#parser = parser;
    this.#marks = marks;
  }

  push(text: string, ids: readonly number[]): Delta | null {
    const given = this.#held + text;
    const kept = Math.max(...this.#marks.map((mark) => overlap(given, mark)));
    this.#held = given.slice(given.length - kept);
    return kept === given.length ? null : this.#parser.push(given.slice(0, given.length - kept), ids);
  }

  finish(): Delta | null {
    const held = this.#held;
    this.#held = "";
    return held === "" ? null : this.#parser.push(held, []);
  }

  unstreamed(): string {
    return this.#parser.unstreamed?.() ?? "";
  }

  extract(text: string): Extracted {
    return this.#parser.extract(text);
  }
}
