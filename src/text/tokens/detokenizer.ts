/**
 * Decodes tokens to text one by one, although a token can end inside a code point.
 *
 * Like vLLM 0.33 (`v1/engine/detokenizer.py` with the decode stream of `tokenizers` 0.23), a token that leaves a code point
 * incomplete has no text. Its text comes with the token that completes it. Invalid bytes become U+FFFD, but only together with
 * the text after them. Text that is held at the end of the answer is lost.
 */
import type { Vocabulary } from "./types.ts";

const REPLACEMENT = "\ufffd";

/** Decodes the tokens of one answer. */
export class Detokenizer {
  /** Text that is not returned yet, because it ends in U+FFFD or in an incomplete code point. */
  #held = "";
  // The incomplete code point: its bits so far, the bytes that it needs, and the range of its next byte.
  #point = 0;
  #needed = 0;
  #lowest = 0x80;
  #highest = 0xbf;

  /** `skipSpecial`: true if special tokens have no text (`skip_special_tokens`). */
  constructor(
    private readonly vocabulary: Vocabulary,
    private readonly skipSpecial: boolean,
  ) {}

  /** True if no text is held, so that the next token's text is its piece, if it has one. */
  get idle(): boolean {
    return this.#needed === 0 && this.#held === "";
  }

  /** Adds a token. Returns the text that can be sent with it, which is "" while text is held. */
  push(id: number): string {
    if (this.skipSpecial && this.vocabulary.isSpecial(id)) return "";
    if (this.idle) {
      const piece = this.vocabulary.piece(id);
      if (piece !== undefined) return piece;
    }
    for (const byte of this.vocabulary.bytesOf(id)) this.#byte(byte);
    if (this.#needed > 0 || this.#held.endsWith(REPLACEMENT)) return "";
    const text = this.#held;
    this.#held = "";
    return text;
  }

  /** Adds a byte. Each maximal invalid part becomes one U+FFFD, as in the WHATWG Encoding Standard. */
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
      // The byte starts a new code point.
      this.#held += REPLACEMENT;
    }
    this.#lowest = 0x80;
    this.#highest = 0xbf;
    if (byte < 0x80) {
      this.#held += String.fromCharCode(byte);
    } else if (byte >= 0xc2 && byte <= 0xdf) {
      this.#needed = 1;
      this.#point = byte & 0x1f;
    } else if (byte >= 0xe0 && byte <= 0xef) {
      if (byte === 0xe0) this.#lowest = 0xa0; // overlong forms are invalid
      if (byte === 0xed) this.#highest = 0x9f; // surrogates are invalid
      this.#needed = 2;
      this.#point = byte & 0x0f;
    } else if (byte >= 0xf0 && byte <= 0xf4) {
      if (byte === 0xf0) this.#lowest = 0x90;
      if (byte === 0xf4) this.#highest = 0x8f; // above U+10FFFF is invalid
      this.#needed = 3;
      this.#point = byte & 0x07;
    } else {
      this.#held += REPLACEMENT;
    }
  }
}
