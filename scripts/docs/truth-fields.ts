/** Lists the fields of the truth log's lines for docs/reference/truth-log.md, with their comments in src/truth/schema.ts. */
import { readFileSync } from "node:fs";
import { markdownTable } from "./markdown.ts";

const SCHEMA = readFileSync(new URL("../../src/truth/schema.ts", import.meta.url), "utf8");

/** Returns a row per field that an interface declares itself. Throws if a field except `type` has no comment. */
function rowsOf(name: string): string[][] {
  const body = new RegExp(`^export interface ${name} .*\\{\\n([\\s\\S]*?)^\\}`, "m").exec(SCHEMA)![1]!;
  const fields = [...body.matchAll(/(?:^ {2}\/\*\*([\s\S]*?)\*\/\n)?^ {2}readonly (\w+)\??:/gm)];
  return fields.flatMap(([, comment, field]) => {
    if (field === "type") return [];
    if (comment === undefined) throw new Error(`src/truth/schema.ts: ${name}.${field} has no comment`);
    return [[`\`${field}\``, comment.replace(/\s*\n \s*\*?\s?|\s+/g, " ").trim()]];
  });
}

const table = (...names: readonly string[]) => markdownTable([["Field", "Meaning"], ...names.flatMap(rowsOf)]);

/** Returns the tables of docs/reference/truth-log.md as Markdown, by the names of their markers in the page. */
export function truthTables(): Readonly<Record<string, string>> {
  return {
    header: table("HeaderLine", "LogHeader"),
    step: table("StepLine"),
    request: table("RequestLine"),
    fault: table("FaultLine"),
    page: table("PageLine"),
  };
}
