/** Reads `--name value` and `--switch` from a bench's command line. */

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
  if (!Number.isFinite(value)) throw new Error(`${name}: must be a number`);
  return value;
}

/** Ends the bench if an option is unknown, because a typing error must not measure something else. */
export function rejectUnknown(names: readonly string[]): void {
  const unknown = argv.filter((word) => word.startsWith("--") && !names.includes(word));
  if (unknown.length === 0) return;
  console.error(`unknown options: ${unknown.join(" ")}; accepted are ${names.join(" ")}`);
  process.exit(2);
}
