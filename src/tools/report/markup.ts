/**
 * Inserts foreign text into a page: names, commands and errors may contain markup. HTML is escaped. Control characters become
 * visible, because somebody may print the file on a terminal, which would obey them.
 */
import { visibleText } from "../../base/printable.ts";

/** Text that is HTML already and is not escaped again. */
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

/** A template tag for HTML. Strings and numbers are escaped; null, undefined and false give no text; lists are joined. */
export function markup(parts: TemplateStringsArray, ...pieces: readonly Piece[]): Markup {
  return new Markup(parts.reduce((text, part, i) => text + textOf(pieces[i - 1]) + part));
}

function textOf(piece: Piece): string {
  if (piece === null || piece === undefined || piece === false) return "";
  if (piece instanceof Markup) return piece.text;
  return typeof piece === "object" ? piece.map(textOf).join("") : escaped(`${piece}`);
}

/** Returns JSON that is safe inside a script element. */
export function jsonFor(data: unknown): Markup {
  return new Markup(
    JSON.stringify(data, (_, value) => (typeof value === "string" ? visibleText(value) : value)).replaceAll(
      "<",
      "\\u003c",
    ),
  );
}
