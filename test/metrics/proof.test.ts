/** Checks that each family of each table names the test that changes it, or the reason why it never changes. */
import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { metricsDialects } from "../../src/metrics/dialects.ts";
import { dialectNames } from "../../src/metrics/rows/dialect-names.ts";
import { identity } from "./snapshots.ts";

const root = join(import.meta.dir, "../..");
const rows = dialectNames.flatMap((dialect) =>
  metricsDialects[dialect].rows(identity).map((row) => [`${dialect} ${row.name}`, row] as const),
);

test.each(rows)("%s names the test that changes it, or a reason", (_, { name, proof }) => {
  if ("still" in proof) {
    expect(proof.still.length).toBeGreaterThan(10);
    return;
  }
  expect(proof.moves).toMatch(/^test\/.*\.test\.ts$/);
  const file = join(root, proof.moves);
  expect(existsSync(file)).toBe(true);
  expect(readFileSync(file, "utf8").includes(name)).toBe(true);
});

test("a family name belongs to one dialect, so /metrics/all shows it once", () => {
  const names = rows.map(([, { name }]) => name);
  expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
});
