/** Writes the list of bug modes into docs/reference/bug-modes.md, between its two markers; `test/metrics/bugs/table.test.ts` compares. */
import { readFileSync, writeFileSync } from "node:fs";
import type { Bug } from "../src/metrics/bugs/bug.ts";
import { bugs } from "../src/metrics/bugs/table.ts";
import { BUG_NAMES } from "../src/metrics/config/bug-names.ts";

const code = (text: string) => `\`${text}\``;
const found = ({ finds }: Bug) =>
  Object.entries(finds)
    .map(([law, takes]) => `${law}: ${takes}`)
    .join("<br>");
const shows = ({ families }: Bug) => (families.length === 0 ? "all" : families.map(code).join(" "));

export function bugsTable(): string {
  const head = "| `--bug` | The real one | Here | In | Found by, and what that takes | After | Thread |";
  const rows = BUG_NAMES.map((name) => {
    const bug = bugs[name];
    return `| ${[code(name), bug.there, bug.here, shows(bug), found(bug), bug.load, bug.thread].join(" | ")} |`;
  });
  return [head, "|---|---|---|---|---|---|---|", ...rows].join("\n");
}

/** Matches the text between the markers. */
export const BETWEEN = /(<!-- bugs -->\n)([\s\S]*?)(\n<!-- \/bugs -->)/;

if (import.meta.main) {
  const page = new URL("../docs/reference/bug-modes.md", import.meta.url);
  const text = readFileSync(page, "utf8");
  if (!BETWEEN.test(text)) throw new Error("docs/reference/bug-modes.md lacks the markers <!-- bugs --> and <!-- /bugs -->");
  writeFileSync(
    page,
    text.replace(BETWEEN, (_, begin: string, _old: string, end: string) => begin + bugsTable() + end),
  );
}
