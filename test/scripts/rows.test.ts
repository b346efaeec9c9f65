/** Tests the reader of the rows behind the tables in the docs: a wrong row must not reach a page. */
import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { tablesOf } from "../../scripts/docs/rows.ts";

const folder = mkdtempSync(join(tmpdir(), "understudy-rows-"));
afterAll(() => rmSync(folder, { recursive: true }));

interface Row {
  readonly what: string;
  readonly most: string;
  readonly option?: string;
}
let files = 0;
function read(yaml: string) {
  const path = join(folder, `${files++}.yaml`);
  writeFileSync(path, yaml);
  return tablesOf<Row>(pathToFileURL(path).href, ["what", "most"], ["option"]);
}

test("rows are returned by the heading of their table", () => {
  const yaml = 'First:\n  - { what: a, most: "1" }\nSecond:\n  - { what: b, most: "2", option: --b }\n';
  expect(read(yaml)).toEqual({ First: [{ what: "a", most: "1" }], Second: [{ what: "b", most: "2", option: "--b" }] });
});

test.each([
  ["lacks a field", "{ what: a }"],
  ["has an unknown field", '{ what: a, most: "1", mots: "2" }'],
  ["has a number in place of a text", "{ what: a, most: 1 }"],
  ["has an empty field", "{ what: a, most: }"],
])("a row that %s is refused", (_, row) => {
  expect(() => read(`Table:\n  - ${row}\n`)).toThrow("a row needs the texts what, most");
});
