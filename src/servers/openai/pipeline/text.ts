/**
 * Which text do the tokens of one choice give, and does it end on a stop string? vLLM 0.33: `v1/engine/detokenizer.py`.
 * Without stop strings tokens stay ids until they are sent, so what waits for a slow client is small.
 */

import { Finish } from "../../../engine/interface/types.ts";
import { Detokenizer } from "../../../text/tokens/detokenizer.ts";
import type { Vocabulary } from "../../../text/tokens/types.ts";
import type { TextOptions } from "../request/output-options.ts";
import { HeldIds } from "./held-ids.ts";
import { StopStrings } from "./stop-strings.ts";

const EMPTY = new Uint8Array();

export class AnswerText {
  /** Output tokens so far. */
  tokens = 0;
  readonly #held = new HeldIds();
  readonly #vocabulary: Vocabulary;
  readonly #skipSpecial: boolean;
  readonly #showStop: boolean;
  readonly #stops: StopStrings | null;
  /** Made when a token leaves a code point open; most answers never do. */
  #detokenizer: Detokenizer | null = null;

  constructor(vocabulary: Vocabulary, options: TextOptions) {
    this.#vocabulary = vocabulary;
    this.#skipSpecial = options.skipSpecialTokens;
    this.#showStop = options.includeStopStrInOutput;
    this.#stops =
      options.stop.length > 0 ? new StopStrings(options.stop, options.includeStopStrInOutput, options.minTokens) : null;
  }

  /** Tokens since the last `take`; a copy. */
  get ids(): readonly number[] {
    return this.#held.toArray();
  }

  /** How many these are. */
  get waiting(): number {
    return this.#held.length;
  }

  /** Nothing waits, and the next token's text depends on that token alone. */
  get idle(): boolean {
    return this.#held.length === 0 && this.#stops === null && (this.#detokenizer === null || this.#detokenizer.idle);
  }

  /** The text of a token when `idle`, as UTF-8, escaped for JSON or not; undefined: it needs `accept`. */
  plain(id: number, escaped = true): Uint8Array | undefined {
    if (this.#skipSpecial && this.#vocabulary.isSpecial(id)) return EMPTY;
    return escaped ? this.#vocabulary.escapedBytes(id) : this.#vocabulary.pieceBytes(id);
  }

  /** Takes the tokens of one step; `finish` as the engine says. Returns the stop string that ended the answer, or null. */
  accept(ids: Int32Array, at: number, count: number, finish: Finish | null): string | null {
    for (let i = at; i < at + count; i++) this.#held.push(ids[i]!);
    const before = this.tokens;
    this.tokens += count;
    if (this.#stops === null || count === 0) return null;
    const skipped = finish === Finish.Stop && !this.#showStop ? 1 : 0;
    const pieces: string[] = [];
    for (let i = at; i < at + count - skipped; i++) pieces.push(this.#decode(ids[i]!));
    const stop = this.#stops.push(pieces, before, skipped);
    if (stop === null) return null;
    // Tokens of the same step after the one that completed it are as if they had not come.
    const surplus = count - this.#stops.kept;
    this.#held.drop(surplus);
    this.tokens -= surplus;
    return stop;
  }

  /** The text that may be sent now. `finish`: how the answer ended, null while it runs. None waits then. */
  take(finish: Finish | null): string {
    let text = "";
    if (this.#stops !== null) {
      text = this.#stops.take(finish !== null);
    } else {
      const count = this.#held.length - (finish === Finish.Stop && !this.#showStop ? 1 : 0);
      for (let i = 0; i < count; i++) text += this.#decode(this.#held.at(i));
    }
    this.#held.clear();
    return text;
  }

  #decode(id: number): string {
    if (this.#detokenizer === null) {
      if (this.#skipSpecial && this.#vocabulary.isSpecial(id)) return "";
      const piece = this.#vocabulary.piece(id);
      if (piece !== undefined) return piece;
      this.#detokenizer = new Detokenizer(this.#vocabulary, this.#skipSpecial);
    }
    return this.#detokenizer.push(id);
  }
}
