/** Finds texts that are single tokens of a vocabulary. */
import type { Vocabulary } from "../../../text/tokens/types.ts";

/** Returns those of the texts that are single tokens, by id. */
export function tokensOf(vocabulary: Vocabulary, texts: readonly string[]): Map<number, string> {
  const wanted = new Map(texts.map((text) => [Buffer.from(text).toString("latin1"), text]));
  const lengths = new Set([...wanted.keys()].map(({ length }) => length));
  const found = new Map<number, string>();
  for (let id = 0; id < vocabulary.size; id++) {
    const bytes = vocabulary.bytesOf(id);
    if (!lengths.has(bytes.length)) continue;
    const text = wanted.get(Buffer.from(bytes).toString("latin1"));
    if (text !== undefined) found.set(id, text);
  }
  return found;
}
