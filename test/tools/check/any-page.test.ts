/** Tests that a check of random pages ends with a verdict, and that a second check gives the same one. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { Checker, checkScrapes, laws } from "../../../src/tools/check/index.ts";
import { checkTable, json, junit } from "../../../src/tools/check/report.ts";
import { times } from "../../size.ts";

const read = (name: string) =>
  readFileSync(new URL(`recorded/${name}`, import.meta.url), "utf8")
    .trimEnd()
    .split("\n");
const pages = [
  read("vllm-clean-99-rest1.txt"),
  read("vllm-aborts-02-step0080.txt"),
  read("triton-2.51-all_on.after.txt"),
  read("dynamo-1.6.1-frontend-kv-after-load.txt"),
];

/** Changes a page: lines are lost, duplicated, moved, taken from another page, or get another value. */
const edit = fc.record({
  kind: fc.constantFrom("lose", "double", "swap", "value", "name", "foreign"),
  at: fc.nat(),
  other: fc.nat(),
  value: fc.oneof(fc.integer().map(String), fc.double().map(String), fc.constantFrom("NaN", "+Inf", "x", "-1", "0.5")),
});
const page = fc
  .record({ which: fc.nat({ max: pages.length - 1 }), edits: fc.array(edit, { maxLength: 6 }) })
  .map(({ which, edits }) => {
    const lines = [...pages[which]!];
    for (const { kind, at, other, value } of edits) {
      const i = at % lines.length;
      const j = other % lines.length;
      if (kind === "lose") lines.splice(i, 1);
      else if (kind === "double") lines.splice(i, 0, lines[j]!);
      else if (kind === "swap") [lines[i], lines[j]] = [lines[j]!, lines[i]!];
      else if (kind === "value") lines[i] = lines[i]!.replace(/ \S+$/, ` ${value}`);
      else if (kind === "name") lines[i] = lines[i]!.replace(/^[^{ ]+/, lines[j]!.split(/[{ ]/)[0]!);
      else lines.splice(i, 0, pages[other % pages.length]![j % 50]!);
    }
    return `${lines.join("\n")}\n`;
  });
const scrapes = fc.array(fc.record({ text: page, rest: fc.boolean() }), { minLength: 1, maxLength: 3 });

test("random pages get one verdict per law, the same on a second run, and a printable report", () => {
  fc.assert(
    fc.property(scrapes, fc.boolean(), (all, clean) => {
      const options = {
        clean,
        parameters: { maxNumSeqs: 6, maxModelLen: 512, minStepMs: 1, batchOfOne: true, noEvict: true },
      };
      const report = checkScrapes(all, options);
      expect(report.laws.map(({ id }) => id)).toEqual(laws.map(({ id }) => id));
      for (const { verdict, violationCount, reason } of report.laws) {
        expect(verdict === "violated").toBe(violationCount > 0);
        if (verdict === "not checkable") expect(reason).not.toBe("");
      }
      expect(checkScrapes(all, options)).toEqual(report);
      const targets = [{ name: "any", report }];
      expect(checkTable(targets)).toContain("not checkable");
      expect(JSON.parse(json(targets)).targets).toHaveLength(1);
      expect(junit(targets).match(/<testcase /g)).toHaveLength(laws.length);
    }),
    { numRuns: times(30) },
  );
}, 60_000);

test("a long watch keeps only the last page in memory", () => {
  const checker = new Checker();
  const [clean] = pages;
  const used = () => {
    Bun.gc(true);
    return process.memoryUsage().heapUsed;
  };
  const scrape = (i: number) => checker.add({ text: `${clean!.join("\n")}\n`, atS: i });
  for (let i = 0; i < 20; i++) scrape(i);
  const before = used();
  for (let i = 20; i < 220; i++) scrape(i);
  // A parsed page takes about a megabyte.
  expect(used() - before).toBeLessThan(20e6);
  expect(checker.report().scrapes).toBe(220);
}, 60_000);

test("control characters of a label do not reach the terminal", () => {
  const sample = 'x_total{name="\u001b[2J\u0007\u202e"} 1\n';
  const report = checkScrapes([`# TYPE x_total counter\n${sample}${sample}`]);
  expect(report.errors).toHaveLength(1);
  const text = checkTable([{ name: "a\u001bb", report }]);
  expect(text).toContain("a\\x1bb");
  expect(text).toContain("\\x1b[2J\\x07\\u202e");
  expect(/(?!\n)[\p{Cc}\p{Cf}]/u.test(text)).toBe(false);
});
