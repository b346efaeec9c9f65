/** Writes rows of cells as a table in Markdown, for the generated text of the docs. */

/** Returns the table in Markdown. The first row is the heading. */
export function markdownTable([heading, ...rows]: readonly (readonly (string | number)[])[]): string {
  const line = (cells: readonly (string | number)[]) => `| ${cells.join(" | ")} |`;
  return [line(heading!), `|${"---|".repeat(heading!.length)}`, ...rows.map(line)].join("\n");
}

/** Returns a text for a cell of a table, in which `|` and `<` would be signs of Markdown and a line break would end the row. */
export const cellText = (text: string): string =>
  text.replaceAll("|", "\\|").replaceAll("<", "&lt;").replaceAll("\n", " ");
