/** Prints the progress and the results of a bench. */

/** Prints a line that the next call replaces. Prints nothing if standard error is not a terminal. */
export function progress(line: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[2K${line.slice(0, (process.stderr.columns ?? 80) - 1)}`);
}

/** Prints a heading and rows of cells. Numbers are aligned to the right. */
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

/** Formats a number: integers whole, other numbers with about three significant digits. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return "-";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  return size >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(size >= 10 ? 1 : size >= 0.1 ? 2 : 3);
}

/** Returns a line with a value, its bound, and whether the bound holds. */
export function bar(name: string, value: number, limit: number, unit: string): string {
  const holds = value <= limit;
  return `${holds ? "holds" : "MISSED"}  ${name}: ${figure(value)} ${unit} (at most ${figure(limit)})`;
}
