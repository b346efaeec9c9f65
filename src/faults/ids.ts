/**
 * Ids of faults that options accept. This list is separate from `faults/table.ts`, because that table is large and only loaded
 * when needed.
 */

const LETTERS: Readonly<Record<string, number>> = { B: 9, S: 16, E: 10, H: 10, T: 7, J: 19, A: 5, G: 3 };
/** Ids of acts of a client, such as a disconnect. A plan cannot order them. */
const NOT_ORDERED = ["T6"];

/** Ids of the faults that a plan can order. */
export const FAULT_IDS: readonly string[] = Object.entries(LETTERS)
  .flatMap(([letter, most]) => Array.from({ length: most }, (_, i) => `${letter}${i + 1}`))
  .filter((id) => !NOT_ORDERED.includes(id));

export function isFaultName(name: string): boolean {
  return FAULT_IDS.includes(name) || (name.length === 2 && name[1] === "*" && name[0]! in LETTERS);
}
