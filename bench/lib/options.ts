/** What was asked of a bench: `--name value` and `--switch` on its command line. */

const argv = process.argv.slice(2);

export function has(name: string): boolean {
  return argv.includes(name);
}

export function text(name: string, fallback: string): string {
  const at = argv.indexOf(name);
  return at < 0 ? fallback : (argv[at + 1] ?? fallback);
}

export function number(name: string, fallback: number): number {
  const value = Number(text(name, String(fallback)));
  if (!Number.isFinite(value)) throw new Error(`${name} wants a number`);
  return value;
}

/** Ends the bench where an option is unknown: a typing error must not measure something else. */
export function known(names: readonly string[]): void {
  const unknown = argv.filter((word) => word.startsWith("--") && !names.includes(word));
  if (unknown.length === 0) return;
  console.error(`unknown: ${unknown.join(" ")}; there are ${names.join(" ")}`);
  process.exit(2);
}
