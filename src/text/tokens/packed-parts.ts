/** A prompt for another thread: hundreds of thousands of parts take as long to post as a few, when they are one text. */
import type { PromptPart } from "./types.ts";

export interface PackedParts {
  /** All texts, one after the other. */
  readonly text: string;
  /** Characters of each part, or -1 less the id of a control token. */
  readonly lengths: Int32Array;
}

export function packed(parts: readonly PromptPart[]): PackedParts {
  return {
    text: parts.filter((part) => typeof part === "string").join(""),
    lengths: Int32Array.from(parts, (part) => (typeof part === "string" ? part.length : -1 - part)),
  };
}

export function unpacked({ text, lengths }: PackedParts): PromptPart[] {
  let at = 0;
  return Array.from(lengths, (length) => {
    if (length < 0) return -1 - length;
    at += length;
    return text.slice(at - length, at);
  });
}
