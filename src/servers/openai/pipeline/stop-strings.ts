/**
 * Finds stop strings in new text, and decides how much of the text may be sent although a match could still follow.
 *
 * Like vLLM 0.33 (`v1/engine/detokenizer.py`), it withholds one character fewer than the longest stop string has while an
 * answer runs. Of several matches the one that ends first wins. If two end together, the first in the list wins.
 */

/** Lengths of the longest stop string of a request, in characters and in UTF-16 units. */
interface LongestStop {
  readonly characters: number;
  readonly units: number;
}

/** Lengths by list of stop strings. All choices of a request share a list, and counting long stop strings takes time. */
const counted = new WeakMap<readonly string[], LongestStop>();

function longestOf(stop: readonly string[]): LongestStop {
  const known = counted.get(stop);
  if (known !== undefined) return known;
  let [characters, units] = [0, 0];
  for (const text of stop) {
    units = Math.max(units, text.length);
    // A text has at most as many characters as UTF-16 units, so a text with fewer units needs no count.
    if (text.length > characters) characters = Math.max(characters, charactersIn(text));
  }
  const longest = { characters, units };
  counted.set(stop, longest);
  return longest;
}

/** Counts Unicode code points without making a list of them. */
function charactersIn(text: string): number {
  let pairs = 0;
  // A text with as many UTF-8 bytes as units is ASCII and has no surrogate pairs. This check is much faster than the loop.
  if (Buffer.byteLength(text) !== text.length)
    for (let at = 1; at < text.length; at++)
      if ((text.charCodeAt(at) & 0xfc00) === 0xdc00 && (text.charCodeAt(at - 1) & 0xfc00) === 0xd800) pairs++;
  return text.length - pairs;
}

/** The text of one choice, as far as stop strings need it. */
export class StopStrings {
  /** Characters that are withheld while the answer runs. */
  readonly #withheld: number;
  /** Length of the longest stop string in UTF-16 units. So much of the sent text is kept, because a match may begin in it. */
  readonly #longest: number;
  /** The end of the text: the part in which a stop string may begin, and the unsent part. */
  #text = "";
  /** Index in `#text` at which the unsent part begins. */
  #unsent = 0;
  #ended = false;
  /** Number of tokens of the last `push`, up to the one that completed a stop string. */
  kept = 0;

  /** `include`: keeps the stop string in the text and withholds nothing. `minTokens`: first tokens, without a search. */
  constructor(
    private readonly stop: readonly string[],
    private readonly include: boolean,
    private readonly minTokens: number,
  ) {
    const { characters, units } = longestOf(stop);
    this.#longest = units;
    this.#withheld = include ? 0 : characters - 1;
  }

  /**
   * Adds the texts of one step's tokens. `tokens`: number of output tokens before them. `skipped`: 1 if a stop token follows
   * that has no text but counts, else 0. Returns the stop string that ended the answer, or null.
   */
  push(pieces: readonly string[], tokens: number, skipped: number): string | null {
    this.#forget();
    let searchFrom = this.#text.length;
    const ends: number[] = [];
    let count = tokens;
    for (const piece of pieces) {
      this.#text += piece;
      ends.push(this.#text.length);
      if (++count <= this.minTokens) searchFrom = this.#text.length;
    }
    this.kept = pieces.length + skipped;
    if (count + skipped <= this.minTokens || searchFrom === this.#text.length) return null;
    return this.#search(searchFrom, ends);
  }

  /** Returns the text that may be sent now. This is all text if the answer has ended. */
  take(finished: boolean): string {
    const end = finished || this.#ended ? this.#text.length : this.#withheldFrom();
    if (end <= this.#unsent) return "";
    const text = this.#text.slice(this.#unsent, end);
    this.#unsent = end;
    return text;
  }

  #search(searchFrom: number, ends: readonly number[]): string | null {
    let found: string | null = null;
    let foundEnd = Number.POSITIVE_INFINITY;
    for (const stop of this.stop) {
      const at = this.#text.indexOf(stop, Math.max(0, searchFrom - stop.length + 1));
      if (at === -1 || at + stop.length >= foundEnd) continue;
      found = stop;
      foundEnd = at + stop.length;
    }
    if (found === null) return null;
    this.#ended = true;
    this.kept = ends.findIndex((end) => end >= foundEnd) + 1;
    this.#text = this.#text.slice(0, this.include ? foundEnd : foundEnd - found.length);
    return found;
  }

  /** Returns the index of the first withheld UTF-16 unit. Counts whole code points from the end. */
  #withheldFrom(): number {
    let at = this.#text.length;
    for (let left = this.#withheld; left > 0 && at > 0; left--) {
      const unit = this.#text.charCodeAt(--at);
      if (unit >= 0xdc00 && unit <= 0xdfff && at > 0) at--;
    }
    return at;
  }

  /** Drops sent text in which no stop string can begin any more. */
  #forget(): void {
    const keepFrom = Math.min(this.#unsent, Math.max(0, this.#text.length - this.#longest));
    if (keepFrom < 256) return; // avoids copying the text for each token
    this.#text = this.#text.slice(keepFrom);
    this.#unsent -= keepFrom;
  }
}
