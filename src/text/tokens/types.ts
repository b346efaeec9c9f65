/** Text and tokens, as the layers above see them. Types only. */

import type { Structure } from "../grammar/structure.ts";
import type { PackedParts } from "./packed-parts.ts";

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
  /** Puts its bytes into `into` from `at` on and gives where they end; for many, since a view of each would be garbage. */
  copyBytes(id: number, into: Uint8Array, at: number): number;
  /** Special tokens are dropped from text unless `skip_special_tokens` is false. */
  isSpecial(id: number): boolean;
  /**
   * Text of a token that may be sent by itself, cached; undefined when it holds part of a code point, or ends in U+FFFD
   * (vLLM holds those back as well): then the `Detokenizer` knows. "" for unused ids.
   */
  piece(id: number): string | undefined;
  /** `piece`, made anew where it is not cached: of a text that lists much of the vocabulary once, keeping it all would be garbage of the kind that is collected last. */
  freshPiece(id: number): string | undefined;
  /** `piece`, escaped for JSON, without quotes around it; cached. */
  escapedPiece(id: number): string | undefined;
  /** Bytes (UTF-8) of `piece`; cached, not to be written to. */
  pieceBytes(id: number): Uint8Array | undefined;
  /** Likewise of `escapedPiece`. */
  escapedBytes(id: number): Uint8Array | undefined;
}

/**
 * A piece of a prompt: text, or the literal id of a control token. Text is encoded piece by piece, so what a user
 * writes never becomes a control token and never merges with its neighbours.
 */
export type PromptPart = string | number;

/** A model's own chat template. */
export interface ModelTemplate {
  /** null: the model is not one for chats. */
  readonly chatTemplate: string | null;
  /** `bos_token` and the like. */
  readonly specials: Readonly<Record<string, string>>;
}

/** From text to ids. Answers keep the order of the calls. */
export interface Encoder {
  /**
   * The ids of the parts, one after the other. With `allowSpecial` spellings of special tokens inside the text become
   * their ids; else they are plain text. Rejects when the encoder was closed or its thread died. A model's own tokenizer
   * always allows them, as transformers does, and with `addSpecial` puts its tokens around the text; the built-in one has none.
   */
  encode(parts: readonly PromptPart[], allowSpecial: boolean, addSpecial?: boolean): Promise<Uint32Array>;
  /** `encode` of parts that nobody has looked at in this thread; absent: they are to be unpacked for it. */
  encodePacked?(parts: PackedParts, allowSpecial: boolean, addSpecial: boolean): Promise<Uint32Array>;
  /** `encode` of a text of UTF-8. Takes the memory of the bytes. */
  encodeUtf8?(bytes: Uint8Array<ArrayBuffer>, allowSpecial: boolean, addSpecial: boolean): Promise<Uint32Array>;
  /**
   * Ids of a constraint's texts by their seeds, made where they are encoded; null for an answer that says what it likes. Rejects
   * with `BrokenStructure`.
   */
  write?(structure: Structure, seeds: readonly number[]): Promise<(Uint32Array | null)[]>;
  /** `encode` at once, where that costs less than waiting; null: it does not. */
  short?(parts: readonly PromptPart[], allowSpecial: boolean): Uint32Array | null;
  /** How many tokens `addSpecial` puts before a text; absent: none. */
  readonly front?: number;
  close(): void;
}
