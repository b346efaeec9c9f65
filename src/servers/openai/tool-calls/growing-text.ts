/** Decides which pieces of incomplete arguments can be sent at once. This saves reading the whole text for each piece. */

/** Reports whether a piece of a string needs no further check: it has no mark or bracket, and no white space at its end. */
export function isPlain(text: string): boolean {
  return /^[^<>{}()[\]|"'\\\n\r]*[^\s<>{}()[\]|"'\\,:=]$/.test(text);
}

/** Passes JSON text on as it comes. Withholds the closing bracket of the outermost level, because further text may follow it. */
export class OpenJson {
  #held = "";
  #depth = 0;
  #inString = false;
  #escapes = false;

  /** Starts a new JSON text. */
  begin(): void {
    this.#held = "";
    this.#depth = 0;
    this.#inString = false;
    this.#escapes = false;
  }

  /** Adds text. Returns the text that may be sent. */
  push(text: string): string {
    let safe = 0;
    const waiting = this.#held + text;
    for (let at = this.#held.length; at < waiting.length; at++) if (this.#isSafe(waiting[at]!)) safe = at + 1;
    this.#held = waiting.slice(safe);
    return waiting.slice(0, safe);
  }

  /** Returns the withheld text and forgets it. */
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
