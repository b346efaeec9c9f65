/** Returns the table of docs/reference/bug-modes.md. */
import type { Bug } from "../../src/metrics/bugs/bug.ts";
import { bugs } from "../../src/metrics/bugs/table.ts";
import { BUG_NAMES } from "../../src/metrics/config/bug-names.ts";
import { markdownTable } from "./markdown.ts";

const code = (text: string) => `\`${text}\``;
const found = ({ finds }: Bug) =>
  Object.entries(finds)
    .map(([law, takes]) => `${law}: ${takes}`)
    .join("<br>");
const shows = ({ families }: Bug) => (families.length === 0 ? "all" : families.map(code).join(" "));

export function bugsTable(): string {
  const head = ["`--bug`", "The real one", "Here", "In", "Found by, and what that takes", "After", "Thread"];
  const rows = BUG_NAMES.map((name) => {
    const bug = bugs[name];
    return [code(name), bug.there, bug.here, shows(bug), found(bug), bug.load, bug.thread];
  });
  return markdownTable([head, ...rows]);
}
