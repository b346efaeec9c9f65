/** What does a bench show while it runs and when it is done? */

/** One line that the next one replaces; nothing when no one watches. */
export function progress(what: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[2K${what.slice(0, (process.stderr.columns ?? 80) - 1)}`);
}

/** Rows of cells under a heading; numbers stand to the right. */
export function table(heading: string, rows: readonly (readonly (string | number)[])[]): void {
  progress("");
  const cells = rows.map((row) => row.map((cell) => (typeof cell === "number" ? figure(cell) : cell)));
  const widths = cells[0]!.map((_, column) => Math.max(...cells.map((row) => Bun.stringWidth(row[column] ?? ""))));
  console.log(`\n${heading}`);
  for (const [i, row] of cells.entries()) {
    const line = row.map((cell, column) => {
      const room = " ".repeat(widths[column]! - Bun.stringWidth(cell));
      return typeof rows[i]![column] === "number" || (i === 0 && column > 0) ? room + cell : cell + room;
    });
    console.log(`  ${line.join("  ").trimEnd()}`);
  }
}

/** Three significant digits where there are decimals. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return "-";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  return size >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(size >= 10 ? 1 : size >= 0.1 ? 2 : 3);
}

/** A bar of the project: printed with its verdict. */
export function bar(what: string, value: number, limit: number, unit: string): string {
  const holds = value <= limit;
  return `${holds ? "holds" : "MISSED"}  ${what}: ${figure(value)} ${unit} (bar ${figure(limit)})`;
}
