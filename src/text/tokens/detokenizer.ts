/**
 * Which text may be sent after each token, when tokens end inside code points?
 *
 * As vLLM 0.33 (`v1/engine/detokenizer.py` with the decode stream of `tokenizers` 0.23): a token that leaves a code
 * point open yields "", and its text comes with the token that completes it. Bytes that can never become a code point
 * turn into U+FFFD, but only together with the text that follows. What is held when the answer ends is lost.
 */
import type { Vocabulary } from "./types.ts";

const REPLACEMENT = "\ufffd";

export class Detokenizer {
  readonly #vocabulary: Vocabulary;
  readonly #skipSpecial: boolean;
  /** Decoded, but it ends in U+FFFD. */
  #held = "";
  // The open code point: its bits so far, how many bytes it still needs, and which range the next byte must be in.
  #point = 0;
  #needed = 0;
  #lowest = 0x80;
  #highest = 0xbf;

  /** `skipSpecial`: special tokens yield no text (`skip_special_tokens`). */
  constructor(vocabulary: Vocabulary, skipSpecial: boolean) {
    this.#vocabulary = vocabulary;
    this.#skipSpecial = skipSpecial;
  }

  /** Nothing is held: the next token's text is its piece, if it has one. */
  get idle(): boolean {
    return this.#needed === 0 && this.#held === "";
  }

  /** The text that becomes sendable with this token; "" while a code point is open. */
  push(id: number): string {
    if (this.#skipSpecial && this.#vocabulary.isSpecial(id)) return "";
    if (this.idle) {
      const piece = this.#vocabulary.piece(id);
      if (piece !== undefined) return piece;
    }
    for (const byte of this.#vocabulary.bytesOf(id)) this.#byte(byte);
    if (this.#needed > 0 || this.#held.endsWith(REPLACEMENT)) return "";
    const text = this.#held;
    this.#held = "";
    return text;
  }

  /** One U+FFFD per maximal broken part, as the UTF-8 decoder of the WHATWG Encoding Standard. */
  #byte(byte: number): void {
    if (this.#needed > 0) {
      if (byte >= this.#lowest && byte <= this.#highest) {
        this.#lowest = 0x80;
        this.#highest = 0xbf;
        this.#point = (this.#point << 6) | (byte & 0x3f);
        if (--this.#needed === 0) this.#held += String.fromCodePoint(this.#point);
        return;
      }
      this.#needed = 0;
      this.#held += REPLACEMENT; // and the byte begins anew
    }
    this.#lowest = 0x80;
    this.#highest = 0xbf;
    if (byte < 0x80) {
      this.#held += String.fromCharCode(byte);
    } else if (byte >= 0xc2 && byte <= 0xdf) {
      this.#needed = 1;
      this.#point = byte & 0x1f;
    } else if (byte >= 0xe0 && byte <= 0xef) {
      if (byte === 0xe0) this.#lowest = 0xa0; // shorter forms exist
      if (byte === 0xed) this.#highest = 0x9f; // surrogates
      this.#needed = 2;
      this.#point = byte & 0x0f;
    } else if (byte >= 0xf0 && byte <= 0xf4) {
      if (byte === 0xf0) this.#lowest = 0x90;
      if (byte === 0xf4) this.#highest = 0x8f; // above U+10FFFF
      this.#needed = 3;
      this.#point = byte & 0x07;
    } else {
      this.#held += REPLACEMENT;
    }
  }
}
