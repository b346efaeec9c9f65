/** What does the column `gen_tokens` of a row say? JSON: tokens as texts and as ids, or their texts alone. */

export interface GivenAnswer {
  readonly text: string;
  /** null: none are there. */
  readonly ids: Uint32Array | null;
}

/** Throws where it says no answer. Names are in any case, as Go reads them. */
export function answerOf(json: unknown): GivenAnswer {
  if (typeof json !== "string") throw new Error("gen_tokens is empty");
  const value: unknown = JSON.parse(json);
  if (Array.isArray(value)) return { text: textOf(value), ids: null };
  if (typeof value !== "object" || value === null) throw new Error("gen_tokens is neither a list nor an object");
  const named = new Map(Object.entries(value).map(([name, one]) => [name.toLowerCase(), one as unknown]));
  const ids = named.get("tokens") ?? named.get("numbers");
  return { text: textOf(named.get("strings")), ids: Array.isArray(ids) ? idsOf(ids) : null };
}

function textOf(value: unknown): string {
  if (Array.isArray(value) && value.every((one) => typeof one === "string")) return value.join("").toWellFormed();
  throw new Error("gen_tokens has no list of texts");
}

function idsOf(value: readonly unknown[]): Uint32Array | null {
  return value.every((id) => typeof id === "number" && Number.isInteger(id) && id >= 0)
    ? Uint32Array.from(value as number[])
    : null;
}

/** Letters, digits and underscores of ASCII. */
export const wordsOf = (text: string): string => text.replace(/\W+/g, "");
