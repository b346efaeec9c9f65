/** Writes the matrix of real clients into docs/reference/clients.md; `test/clients/matrix.test.ts` runs it and compares. */
import { readFileSync, writeFileSync } from "node:fs";
import { clients, missing } from "../test/clients/matrix.ts";

export function clientsTable(): string {
  const rows = clients.map(({ name, packages, command, checks, toolchain }) => [
    ...[name, packages.join(", "), checks.join(", "), toolchain ? "passed, by `test:clients`" : "passed, in CI"],
    `\`${command.join(" ")}\``,
  ]);
  const others = missing.map(({ name, packages, why }) => [name, packages.join(", "), "", `FAILED: ${why}`, ""]);
  return [
    "| Client | Version | What was run | Result | Command |",
    "|---|---|---|---|---|",
    ...[...rows, ...others].map((cells) => `| ${cells.join(" | ")} |`),
  ].join("\n");
}

/** Matches the text between the markers. */
export const BETWEEN = /(<!-- clients -->\n)([\s\S]*?)(\n<!-- \/clients -->)/;

if (import.meta.main) {
  const page = new URL("../docs/reference/clients.md", import.meta.url);
  const text = readFileSync(page, "utf8");
  if (!BETWEEN.test(text)) throw new Error("docs/reference/clients.md lacks the markers <!-- clients --> and <!-- /clients -->");
  writeFileSync(
    page,
    text.replace(BETWEEN, (_, begin: string, _old: string, end: string) => begin + clientsTable() + end),
  );
}
