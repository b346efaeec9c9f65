/**
 * Finds stop strings in new text, and says how much of the text may be sent before a match is ruled out.
 *
 * As vLLM 0.33 (`v1/engine/detokenizer.py`): while an answer runs, as many characters as the longest stop string has
 * but one are held back; the match that ends first wins, equal ends go by the order of the list.
 */

/** Lengths of the longest stop string of a request, in characters and in UTF-16 units. */
interface Longest {
  readonly characters: number;
  readonly units: number;
}

/** All choices of a request have the same list. A stop string may have megabytes, so its characters are counted once. */
const counted = new WeakMap<readonly string[], Longest>();

function longestOf(stop: readonly string[]): Longest {
  const known = counted.get(stop);
  if (known !== undefined) return known;
  let [characters, units] = [0, 0];
  for (const text of stop) {
    units = Math.max(units, text.length);
    // A text has at most as many characters as UTF-16 units, so a shorter one need not be counted.
    if (text.length > characters) characters = Math.max(characters, charactersIn(text));
  }
  const longest = { characters, units };
  counted.set(stop, longest);
  return longest;
}

/** Counts Unicode characters without making a list of them. */
function charactersIn(text: string): number {
  let pairs = 0;
  // An ASCII text has no pairs, and the runtime counts its bytes much faster than this loop its units.
  if (Buffer.byteLength(text) !== text.length)
    for (let at = 1; at < text.length; at++)
      if ((text.charCodeAt(at) & 0xfc00) === 0xdc00 && (text.charCodeAt(at - 1) & 0xfc00) === 0xd800) pairs++;
  return text.length - pairs;
}

export class StopStrings {
  readonly #stop: readonly string[];
  readonly #include: boolean;
  readonly #minTokens: number;
  /** Characters held back while the answer runs. */
  readonly #holdBack: number;
  /** Longest stop string in UTF-16 units: so much of what was sent is kept to look back into. */
  readonly #longest: number;
  /** The end of the text: what is not sent yet, and before it what a stop string may begin in. */
  #text = "";
  /** Where in `#text` the unsent part begins. */
  #unsent = 0;
  #ended = false;
  /** Tokens of the last `push` up to the one that completed a stop string. */
  kept = 0;

  /** `include`: the stop string stays in the text, and nothing is held back. `minTokens`: none counts up to there. */
  constructor(stop: readonly string[], include: boolean, minTokens: number) {
    this.#stop = stop;
    this.#include = include;
    this.#minTokens = minTokens;
    const { characters, units } = longestOf(stop);
    this.#longest = units;
    this.#holdBack = include ? 0 : characters - 1;
  }

  /**
   * Takes the texts of the tokens of one step; `tokens` is the number of output tokens before them. Returns the stop
   * string that ended the answer, or null. `skipped`: a stop token without text that follows them and counts.
   */
  push(pieces: readonly string[], tokens: number, skipped: number): string | null {
    this.#forget();
    let searchFrom = this.#text.length;
    const ends: number[] = [];
    let count = tokens;
    for (const piece of pieces) {
      this.#text += piece;
      ends.push(this.#text.length);
      if (++count <= this.#minTokens) searchFrom = this.#text.length;
    }
    this.kept = pieces.length + skipped;
    if (count + skipped <= this.#minTokens || searchFrom === this.#text.length) return null;
    return this.#search(searchFrom, ends);
  }

  /** The text that may be sent now; all of it once the answer has ended. */
  take(finished: boolean): string {
    const end = finished || this.#ended ? this.#text.length : this.#heldFrom();
    if (end <= this.#unsent) return "";
    const text = this.#text.slice(this.#unsent, end);
    this.#unsent = end;
    return text;
  }

  #search(searchFrom: number, ends: readonly number[]): string | null {
    let found: string | null = null;
    let foundEnd = Number.POSITIVE_INFINITY;
    for (const stop of this.#stop) {
      const at = this.#text.indexOf(stop, Math.max(0, searchFrom - stop.length + 1));
      if (at === -1 || at + stop.length >= foundEnd) continue;
      found = stop;
      foundEnd = at + stop.length;
    }
    if (found === null) return null;
    this.#ended = true;
    this.kept = ends.findIndex((end) => end >= foundEnd) + 1;
    this.#text = this.#text.slice(0, this.#include ? foundEnd : foundEnd - found.length);
    return found;
  }

  /** Index of the first unit that is held back: whole code points, counted from the end. */
  #heldFrom(): number {
    let at = this.#text.length;
    for (let left = this.#holdBack; left > 0 && at > 0; left--) {
      const unit = this.#text.charCodeAt(--at);
      if (unit >= 0xdc00 && unit <= 0xdfff && at > 0) at--;
    }
    return at;
  }

  #forget(): void {
    const keepFrom = Math.min(this.#unsent, Math.max(0, this.#text.length - this.#longest));
    if (keepFrom < 256) return; // now and then is enough
    this.#text = this.#text.slice(keepFrom);
    this.#unsent -= keepFrom;
  }
}
