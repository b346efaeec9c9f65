/** Checks that the table of bug modes and the laws agree, and that a bug mode has no effect while it is off. */
import { expect, test } from "bun:test";
import { withBugs } from "../../../src/metrics/bugs/rows.ts";
import { stuck } from "../../../src/metrics/bugs/stuck.ts";
import { bugs } from "../../../src/metrics/bugs/table.ts";
import { BUG_NAMES } from "../../../src/metrics/config/bug-names.ts";
import { metricsDialects } from "../../../src/metrics/dialects.ts";
import { dialectNames } from "../../../src/metrics/rows/dialect-names.ts";
import { laws } from "../../../src/tools/check/index.ts";
import { emptySnapshot, identity } from "../snapshots.ts";

const rows = dialectNames.flatMap((name) => [...metricsDialects[name].rows(identity)]);

test.each(BUG_NAMES)("the laws and families of %s exist, and it changes only these families", (name) => {
  const { families } = bugs[name];
  const finds = Object.keys(bugs[name].finds);
  expect(finds.filter((law) => !laws.some(({ id }) => id === law))).toEqual([]);
  expect(finds).not.toEqual([]);
  const changed = rows.filter((row, i) => withBugs(rows, { ...identity, bugs: [name] })[i] !== row);
  if (bugs[name].row) expect(new Set(changed.map((row) => row.name))).toEqual(new Set(families));
  else expect(changed).toEqual([]);
});

test("a bug mode has a single effect", () => {
  const ways = BUG_NAMES.map((name) => [bugs[name].row, bugs[name].sticks, bugs[name].alone].filter(Boolean).length);
  expect(ways).toEqual(BUG_NAMES.map(() => 1));
});

test("without a bug mode, tables and source are the same objects", () => {
  expect(withBugs(rows, identity)).toBe(rows);
  expect(stuck([], () => emptySnapshot())).toBeNull();
  expect(stuck(["open-leak", "worker-saw-tooth"], () => emptySnapshot())).toBeNull();
});
