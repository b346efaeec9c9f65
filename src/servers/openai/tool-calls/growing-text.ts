/** Tells which pieces of growing arguments may leave at once, without a look at all that came before. */

/** Reports whether a piece of a text can neither end it nor be held back: no mark, no bracket, no white space at its end. */
export function isPlain(text: string): boolean {
  return /^[^<>{}()[\]|"'\\\n\r]*[^\s<>{}()[\]|"'\\,:=]$/.test(text);
}

/** JSON text that passes as it comes, except for closing brackets of the outermost level: text may follow them. */
export class OpenJson {
  #held = "";
  #depth = 0;
  #inString = false;
  #escapes = false;

  begin(): void {
    this.#held = "";
    this.#depth = 0;
    this.#inString = false;
    this.#escapes = false;
  }

  /** Returns the text that may leave. */
  push(text: string): string {
    let safe = 0;
    const given = this.#held + text;
    for (let at = this.#held.length; at < given.length; at++) if (this.#isSafe(given[at]!)) safe = at + 1;
    this.#held = given.slice(safe);
    return given.slice(0, safe);
  }

  /** Returns the text that was held back, once. */
  rest(): string {
    const held = this.#held;
    this.#held = "";
    return held;
  }

  #isSafe(character: string): boolean {
    if (this.#escapes) this.#escapes = false;
    else if (this.#inString) {
      if (character === "\\") this.#escapes = true;
      else if (character === '"') this.#inString = false;
    } else if (character === '"') this.#inString = true;
    else if (character === "{" || character === "[") this.#depth++;
    else if (character === "}" || character === "]") {
      if (this.#depth > 0) this.#depth--;
      return this.#depth > 0;
    }
    return true;
  }
}
