/** Packs a prompt as one text for another thread, so that sending hundreds of thousands of parts is as fast as sending a few. */
import type { PromptPart } from "./types.ts";

/** The parts of a prompt, packed. */
export interface PackedParts {
  /** All texts, joined. */
  readonly text: string;
  /** UTF-16 units of each text, or -1 minus the ID of a control token. */
  readonly lengths: Int32Array;
}

/** Packs the parts of a prompt. */
export function packed(parts: readonly PromptPart[]): PackedParts {
  return {
    text: parts.filter((part) => typeof part === "string").join(""),
    lengths: Int32Array.from(parts, (part) => (typeof part === "string" ? part.length : -1 - part)),
  };
}

/** Returns the parts of a packed prompt. */
export function unpacked({ text, lengths }: PackedParts): PromptPart[] {
  let at = 0;
  return Array.from(lengths, (length) => {
    if (length < 0) return -1 - length;
    at += length;
    return text.slice(at - length, at);
  });
}
