/** Which names may options give to faults? The list itself is `faults/table.ts`, which is loaded when it is wanted. */

const LETTERS: Readonly<Record<string, number>> = { B: 9, S: 14, E: 9, H: 10, T: 7, J: 15, A: 5 };
/** A client's acts. */
const NOT_ORDERED = ["T6"];

export function isFaultName(name: string): boolean {
  const [, letter = "", number = ""] = /^([A-Z])(\d{1,2}|\*)$/.exec(name) ?? [];
  const most = LETTERS[letter];
  if (most === undefined || NOT_ORDERED.includes(name)) return false;
  return number === "*" || (Number(number) >= 1 && Number(number) <= most && !number.startsWith("0"));
}
