/** Text and tokens, as the layers above see them. Types only. */

/** From token id to text. Lives on the main thread: packed, cheap to load, no encoder in it. */
export interface Vocabulary {
  /** Ids are 0 … size-1; an id may be unused (no bytes). */
  readonly size: number;
  /** The end-of-sequence id. */
  readonly eosId: number;
  /** Byte length of the longest token. */
  readonly maxTokenBytes: number;
  /** A view, valid until the next call. Empty for unused ids. */
  bytesOf(id: number): Uint8Array;
  /** Special tokens are dropped from text unless `skip_special_tokens` is false. */
  isSpecial(id: number): boolean;
  /** Text of a token that is complete UTF-8 by itself, escaped for JSON (no quotes around it), cached; undefined when it holds part of a code point. */
  escapedPiece(id: number): string | undefined;
}

/** From text to ids. Answers keep the order of the calls. */
export interface Encoder {
  /** `allowSpecial`: the text's special tokens (chat templates) become their ids; else they are plain text. */
  encode(text: string, allowSpecial: boolean): Promise<Uint32Array>;
  close(): void;
}
