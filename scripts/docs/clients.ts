/** Returns the table of real clients in docs/reference/clients.md. */
import { clients, missing } from "../../test/clients/matrix.ts";
import { markdownTable } from "./markdown.ts";

export function clientsTable(): string {
  const rows = clients.map(({ name, packages, command, checks, toolchain }) => [
    ...[name, packages.join(", "), checks.join(", "), toolchain ? "passed, by `test clients`" : "passed, in CI"],
    `\`${command.join(" ")}\``,
  ]);
  const others = missing.map(({ name, packages, why }) => [name, packages.join(", "), "", `FAILED: ${why}`, ""]);
  return markdownTable([["Client", "Version", "What was run", "Result", "Command"], ...rows, ...others]);
}
