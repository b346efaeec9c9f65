/**
 * Puts text from outside into a page: names, commands and errors come from anywhere. HTML is escaped, and control
 * characters become visible, because a file may be shown on a terminal, which obeys them.
 */
import { visibleText } from "../../base/printable.ts";

/** Text that is HTML already. */
export class Markup {
  constructor(readonly text: string) {}
}

type Piece = string | number | Markup | null | undefined | false | readonly Piece[];

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

export const escaped = (text: string): string =>
  visibleText(text).replace(/[&<>"']/g, (character) => ESCAPES[character]!);

/** A template of HTML: strings and numbers are escaped, nothing stands for null, undefined and false, lists are joined. */
export function markup(parts: TemplateStringsArray, ...pieces: readonly Piece[]): Markup {
  return new Markup(parts.reduce((text, part, i) => text + textOf(pieces[i - 1]) + part));
}

function textOf(piece: Piece): string {
  if (piece === null || piece === undefined || piece === false) return "";
  if (piece instanceof Markup) return piece.text;
  return typeof piece === "object" ? piece.map(textOf).join("") : escaped(`${piece}`);
}

/** JSON that can stand in a script element, whatever is in it. */
export function jsonFor(data: unknown): Markup {
  return new Markup(
    JSON.stringify(data, (_, value) => (typeof value === "string" ? visibleText(value) : value)).replaceAll(
      "<",
      "\\u003c",
    ),
  );
}
