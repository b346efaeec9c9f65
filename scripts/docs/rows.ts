/** Reads rows of the tables in the docs from the YAML files next to this one. */
import { readFileSync } from "node:fs";
import { parse } from "yaml";

const parsed = (file: string) => parse(readFileSync(new URL(file, import.meta.url), "utf8"));

/** Returns the texts of a file by name. */
export const textsOf = (file: string): Readonly<Record<string, string>> => parsed(file);

/**
 * Returns the rows of a file, by the heading of their table. Throws if a row lacks one of the `fields`, has another that is not
 * among `optional`, or has a value that is no text.
 */
export function tablesOf<Row>(
  file: string,
  fields: readonly (keyof Row & string)[],
  optional: readonly (keyof Row & string)[],
): Readonly<Record<string, readonly Row[]>> {
  const tables: Record<string, Record<string, unknown>[]> = parsed(file);
  for (const row of Object.values(tables).flat()) {
    const names = Object.keys(row) as (keyof Row & string)[];
    const isRow =
      fields.every((field) => names.includes(field)) &&
      names.every((name) => [...fields, ...optional].includes(name) && typeof row[name] === "string");
    if (!isRow) throw new Error(`${file}: a row needs the texts ${fields.join(", ")}: ${JSON.stringify(row)}`);
  }
  return tables as Readonly<Record<string, readonly Row[]>>;
}
