/** Reads the column `gen_tokens` of a row: JSON with tokens as texts and as IDs, or only as texts. */

/** The answer of a row. */
export interface RowAnswer {
  readonly text: string;
  /** Token IDs, or null if the row has only texts. */
  readonly ids: Uint32Array | null;
}

/** Reads an answer. Throws if there is none. Ignores the case of names, like Go's JSON reader. */
export function answerOf(json: unknown): RowAnswer {
  if (typeof json !== "string") throw new Error("gen_tokens is empty");
  const value: unknown = JSON.parse(json);
  if (Array.isArray(value)) return { text: textOf(value), ids: null };
  if (typeof value !== "object" || value === null) throw new Error("gen_tokens is neither a list nor an object");
  const named = new Map(Object.entries(value).map(([name, member]) => [name.toLowerCase(), member as unknown]));
  const ids = named.get("tokens") ?? named.get("numbers");
  return { text: textOf(named.get("strings")), ids: Array.isArray(ids) ? idsOf(ids) : null };
}

function textOf(value: unknown): string {
  if (Array.isArray(value) && value.every((text) => typeof text === "string")) return value.join("").toWellFormed();
  throw new Error("gen_tokens has no list of texts");
}

function idsOf(value: readonly unknown[]): Uint32Array | null {
  return value.every((id) => typeof id === "number" && Number.isInteger(id) && id >= 0)
    ? Uint32Array.from(value as number[])
    : null;
}

/** Returns only the ASCII letters, digits and underscores of a text. */
export const wordsOf = (text: string): string => text.replace(/\W+/g, "");
