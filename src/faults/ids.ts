/** Ids of faults that options accept. The table of faults (`faults/table.ts`) is large, so it is only loaded when it is needed. */

const LETTERS: Readonly<Record<string, number>> = { B: 9, S: 16, E: 10, H: 10, T: 7, J: 19, A: 5, G: 3 };
/** Acts of a client, which no answer can have. */
const NOT_ORDERED = ["T6"];

/** Ids of faults that an answer can have. */
export const FAULT_IDS: readonly string[] = Object.entries(LETTERS)
  .flatMap(([letter, most]) => Array.from({ length: most }, (_, i) => `${letter}${i + 1}`))
  .filter((id) => !NOT_ORDERED.includes(id));

export function isFaultName(name: string): boolean {
  return FAULT_IDS.includes(name) || (name.length === 2 && name[1] === "*" && name[0]! in LETTERS);
}
