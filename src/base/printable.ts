/**
 * Makes text from outside safe for a terminal. A server's error text, a model name or a line of a file may hold escape
 * sequences that move the cursor, retitle the window or hide what stands before them.
 */

/** Longest line of outside text that is printed, in characters. */
export const PRINTED_LINE_MOST = 4096;

/** Control characters (C0, DEL, C1), format characters (bidi overrides, zero width), Unicode line ends, lone surrogates. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u;
const EACH_UNPRINTABLE = new RegExp(UNPRINTABLE, "gu");

function escapeOf(character: string): string {
  const code = character.codePointAt(0)!;
  const hex = code.toString(16);
  if (code < 0x100) return `\\x${hex.padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${hex.padStart(4, "0")}` : `\\u{${hex}}`;
}

/** One line: control and format characters, line ends and tabs become visible escapes such as `\x1b`; a long text is cut. */
export function printable(text: string): string {
  const shown =
    text.length <= PRINTED_LINE_MOST
      ? text
      : `${text.slice(0, PRINTED_LINE_MOST)}… (${text.length - PRINTED_LINE_MOST} more characters)`;
  return UNPRINTABLE.test(shown) ? shown.replace(EACH_UNPRINTABLE, escapeOf) : shown;
}

/** Several lines: as `printable`, but LF ends a line and tabs stay. The limit counts for each line. */
export function printableLines(text: string): string {
  const hasLines = text.includes("\n") || text.includes("\t");
  if (!hasLines) return printable(text);
  return text
    .split("\n")
    .map((line) => line.split("\t").map(printable).join("\t"))
    .join("\n");
}

/** A text of any length for a page: characters as in `printable` become visible escapes, but LF and tabs stay. */
export const visibleText = (text: string): string =>
  text.replace(EACH_UNPRINTABLE, (character) =>
    character === "\n" || character === "\t" ? character : escapeOf(character),
  );

/** JSON whose texts hold no character that a terminal obeys: JSON's own escapes stand for them. */
export function printableJson(
  value: unknown,
  indent?: number,
  replacer?: (key: string, value: unknown) => unknown,
): string {
  return JSON.stringify(value, replacer, indent).replace(EACH_UNPRINTABLE, (character) =>
    character === "\n" ? character : jsonEscapeOf(character),
  );
}

const jsonEscapeOf = (character: string): string =>
  Array.from(
    { length: character.length },
    (_, i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, "0")}`,
  ).join("");
