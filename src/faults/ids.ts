/** Which names may options give to faults? The list itself is `faults/table.ts`, which is loaded when it is wanted. */

const LETTERS: Readonly<Record<string, number>> = { B: 9, S: 16, E: 10, H: 10, T: 7, J: 19, A: 5, G: 3 };
/** A client's act. */
const NOT_ORDERED = ["T6"];

/** Those that an answer can have. */
export const FAULT_IDS: readonly string[] = Object.entries(LETTERS)
  .flatMap(([letter, most]) => Array.from({ length: most }, (_, i) => `${letter}${i + 1}`))
  .filter((id) => !NOT_ORDERED.includes(id));

export function isFaultName(name: string): boolean {
  return FAULT_IDS.includes(name) || (name.length === 2 && name[1] === "*" && name[0]! in LETTERS);
}
