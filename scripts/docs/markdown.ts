/** Formats tables for pages of the docs. */

/** Returns a table in Markdown. The first row is the heading. */
export function markdownTable([heading, ...rows]: readonly (readonly (string | number)[])[]): string {
  const line = (cells: readonly (string | number)[]) => `| ${cells.join(" | ")} |`;
  return [line(heading!), `|${"---|".repeat(heading!.length)}`, ...rows.map(line)].join("\n");
}
