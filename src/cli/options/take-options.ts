/** Parses the options of a command's own table, and returns the other arguments unparsed. */
import { type UsageError, wrongValue } from "./given.ts";
import { type Option, type OptionRow, splitAtEquals, type ValueOf } from "./option.ts";

export type OptionsTable = Readonly<Record<string, OptionRow>>;
export type ValuesOf<T extends OptionsTable> = { readonly [K in keyof T]?: ValueOf<T[K]> };

export interface ParsedOptions<T extends OptionsTable> {
  readonly values: ValuesOf<T>;
  /** The arguments that are not options of the table, in their order. */
  readonly rest: readonly string[];
}

/** Parses options with one value, switches, and toggles (--x and --no-x). The last value of a repeated option wins. */
export function takeOptions<T extends OptionsTable>(table: T, argv: readonly string[]): ParsedOptions<T> | UsageError {
  const values: Record<string, unknown> = {};
  const rest: string[] = [];
  for (let at = 0; at < argv.length; at++) {
    const [written, attached] = splitAtEquals(argv[at]!);
    const found = written.startsWith("--") ? find(table, written.slice(2).replaceAll("_", "-")) : undefined;
    if (found === undefined) {
      rest.push(argv[at]!);
      continue;
    }
    const { name, option, sets } = found;
    const bare = option.arity === "switch" || option.arity === "toggle";
    if (bare && attached !== undefined) return { error: `${written}: takes no value, not "${attached}"` };
    const value = bare ? String(sets) : (attached ?? argv[++at]);
    if (value === undefined) return { error: `${written}: needs a value: ${option.accepts}` };
    values[name] = option.read([value]);
    if (values[name] === undefined) return wrongValue(written, option.accepts, value);
  }
  return { values: values as ValuesOf<T>, rest };
}

function find(table: OptionsTable, name: string): { name: string; option: Option; sets: boolean } | undefined {
  if (Object.hasOwn(table, name)) return { name, option: table[name]!, sets: true };
  const positive = name.replace(/^no-/, "");
  const isNegated = positive !== name && Object.hasOwn(table, positive) && table[positive]!.arity === "toggle";
  return isNegated ? { name: positive, option: table[positive]!, sets: false } : undefined;
}

/** Returns the help text of a table: flag, effect and default of each option. */
export function optionsHelp(table: OptionsTable): string {
  return Object.entries(table)
    .map(([name, row]) => {
      const flag =
        row.arity === "toggle" ? `--[no-]${name}` : `--${name}${row.metavar === "" ? "" : ` ${row.metavar}`}`;
      return `  ${flag}\n      ${row.about} Default: ${row.default}.`;
    })
    .join("\n");
}
