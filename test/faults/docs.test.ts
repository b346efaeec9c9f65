/** Checks the plans in the pages on faults, and that options accept the ids of the table. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { FAULT_IDS, isFaultName } from "../../src/faults/ids.ts";
import { rowsNamed } from "../../src/faults/order.ts";
import { parsePlan } from "../../src/faults/parse.ts";
import { FAULT_ROWS } from "../../src/faults/table.ts";

const pages = ["how-to", "reference"].map((folder) =>
  readFileSync(new URL(`../../docs/${folder}/faults.md`, import.meta.url), "utf8"),
);

test("every plan on the pages parses", () => {
  const plans = [...pages.join("\n").matchAll(/(?:"fault": ?"|fault: |plan: )([A-Z]\d[^"\s`}]*)/g)].map(
    ([, plan]) => plan!,
  );
  expect(plans.length).toBeGreaterThan(3);
  for (const plan of plans) expect(parsePlan(plan).faults.length).toBeGreaterThan(0);
});

test("there are 82 faults, and options accept the ids of those that an answer can have", () => {
  expect(FAULT_ROWS.size).toBe(82);
  const rows = [...FAULT_ROWS.values()].filter(({ stage }) => stage !== "client");
  expect(rows.map(({ id }) => id)).toEqual(
    [...FAULT_IDS].toSorted((a, b) => [...FAULT_ROWS.keys()].indexOf(a) - [...FAULT_ROWS.keys()].indexOf(b)),
  );
  expect(FAULT_IDS.length).toBe(78);
  for (const name of ["B*", "A*", ...FAULT_IDS]) expect([name, isFaultName(name)]).toEqual([name, true]);
  for (const name of ["C1", "T6", "B0", "B10", "*", "b1", ""]) expect([name, isFaultName(name)]).toEqual([name, false]);
  expect(rowsNamed(["G*"])).toEqual([]);
  expect(rowsNamed(["G*"], "grpc").length).toBe(3);
  for (const letter of "BSEHTJ") expect(rowsNamed([`${letter}*`]).length).toBeGreaterThan(0);
});
