/** Shortens texts of a server for messages, so that an answer of any size fits on one line. */
import { printable } from "../../../base/printable.ts";

const QUOTED_MOST = 120;

/** Returns the beginning of a text on one line, without control characters. */
export function quoted(text: string): string {
  const line = text
    .slice(0, 4 * QUOTED_MOST)
    .replace(/\s+/g, " ")
    .trim();
  return printable(line.length > QUOTED_MOST ? `${line.slice(0, QUOTED_MOST)}…` : line);
}
