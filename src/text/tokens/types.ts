/** Types of vocabularies and encoders, as other code uses them. Types only. */

import type { Structure } from "../grammar/structure.ts";
import type { PackedParts } from "./packed-parts.ts";

/** Converts token IDs to text, on the main thread. */
export interface Vocabulary {
  /** IDs are from 0 to size - 1. An ID may be unused. It then has no bytes. */
  readonly size: number;
  /** ID of the end of sequence. */
  readonly eosId: number;
  /** Byte length of the longest token. */
  readonly maxTokenBytes: number;
  /** Returns the bytes of a token, as a view that is valid until the next call. Empty for unused IDs. */
  bytesOf(id: number): Uint8Array;
  /** Copies a token's bytes to `into` from offset `at`, and returns their end. Unlike `bytesOf`, it makes no garbage. */
  copyBytes(id: number, into: Uint8Array, at: number): number;
  /** Reports whether a token is special. Text omits special tokens unless `skip_special_tokens` is false. */
  isSpecial(id: number): boolean;
  /**
   * Returns the text of a token that can be sent alone, and caches it. Returns undefined if the token has an incomplete code point
   * or ends in U+FFFD, which vLLM holds back. The `Detokenizer` decodes such tokens. Returns "" for unused IDs.
   */
  piece(id: number): string | undefined;
  /** Like `piece`, but does not add to the cache. For texts that list much of the vocabulary once. */
  freshPiece(id: number): string | undefined;
  /** Like `piece`, escaped for JSON, without quotes. Cached. */
  escapedPiece(id: number): string | undefined;
  /** Returns the UTF-8 of `piece`. Cached, so that callers must not write to it. */
  pieceBytes(id: number): Uint8Array | undefined;
  /** Returns the UTF-8 of `escapedPiece`. Cached, so that callers must not write to it. */
  escapedBytes(id: number): Uint8Array | undefined;
}

/**
 * A part of a prompt: a text, or the ID of a control token. Parts are encoded separately, so that a user's text neither becomes
 * a control token nor merges with its neighbours.
 */
export type PromptPart = string | number;

/** A model's own chat template. */
export interface ModelTemplate {
  /** Source of the template. Null if the model is not for chats. */
  readonly chatTemplate: string | null;
  /** Texts of special tokens by name, such as `bos_token`. */
  readonly specials: Readonly<Record<string, string>>;
}

/** Converts text to token IDs. Promises settle in the order of the calls. */
export interface Encoder {
  /**
   * Returns the IDs of all parts. With `allowSpecial`, spellings of special tokens in a text become their IDs, which a model's
   * own tokenizer always does, like transformers. With `addSpecial`, a model's own tokenizer adds its special tokens around the text.
   * Rejects if the encoder is closed or its thread dies.
   */
  encode(parts: readonly PromptPart[], allowSpecial: boolean, addSpecial?: boolean): Promise<Uint32Array>;
  /** Like `encode`, for packed parts. Absent: the caller must unpack them. */
  encodePacked?(parts: PackedParts, allowSpecial: boolean, addSpecial: boolean): Promise<Uint32Array>;
  /** Like `encode`, for a text in UTF-8, whose buffer is moved to the thread. Absent: the caller must decode it. */
  encodeUtf8?(bytes: Uint8Array<ArrayBuffer>, allowSpecial: boolean, addSpecial: boolean): Promise<Uint32Array>;
  /**
   * Returns the IDs of a text per seed that fits the constraint, or null for an answer without a constraint. Rejects with
   * `BrokenStructure`. Absent: the caller must write and encode the texts.
   */
  write?(structure: Structure, seeds: readonly number[]): Promise<(Uint32Array | null)[]>;
  /** Like `encode`, at once. Returns null if the text is too long for that, or the index is not ready. */
  short?(parts: readonly PromptPart[], allowSpecial: boolean): Uint32Array | null;
  /** Number of tokens that `addSpecial` adds before a text. Absent: none. */
  readonly front?: number;
  close(): void;
}
