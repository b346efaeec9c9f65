/**
 * Makes text from outside safe for a terminal. A server's error text, a model name or a line of a file may hold escape
 * sequences that move the cursor, retitle the window or hide what stands before them.
 */

/** Most characters of a line from outside that are printed. The rest is cut. */
export const PRINTED_LINE_MOST = 4096;

/**
 * Matches control characters (C0, DEL, C1), format characters (bidi overrides, zero width), Unicode line ends and lone
 * surrogates.
 */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u;
const EACH_UNPRINTABLE = new RegExp(UNPRINTABLE, "gu");

function escapeOf(character: string): string {
  const code = character.codePointAt(0)!;
  const hex = code.toString(16);
  if (code < 0x100) return `\\x${hex.padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${hex.padStart(4, "0")}` : `\\u{${hex}}`;
}

/**
 * Returns the text as one line. Control and format characters, line ends and tabs become visible escapes such as `\x1b`. A line
 * longer than `PRINTED_LINE_MOST` is cut.
 */
export function printable(text: string): string {
  const shown =
    text.length <= PRINTED_LINE_MOST
      ? text
      : `${text.slice(0, PRINTED_LINE_MOST)}… (${text.length - PRINTED_LINE_MOST} more characters)`;
  return UNPRINTABLE.test(shown) ? shown.replace(EACH_UNPRINTABLE, escapeOf) : shown;
}

/** Returns the text as several lines, each as `printable` returns it, except that tabs stay. LF ends a line. */
export function printableLines(text: string): string {
  const hasLines = text.includes("\n") || text.includes("\t");
  if (!hasLines) return printable(text);
  return text
    .split("\n")
    .map((line) => line.split("\t").map(printable).join("\t"))
    .join("\n");
}

/** Returns a text of any length for a page. Makes characters visible as `printable` does, but keeps LF and tabs. */
export const visibleText = (text: string): string =>
  text.replace(EACH_UNPRINTABLE, (character) =>
    character === "\n" || character === "\t" ? character : escapeOf(character),
  );

/** Returns JSON in which control and format characters are written as JSON escapes, so that a terminal obeys none of them. */
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
