/** Tests the man page: it has every option, and groff formats it without a warning if groff is installed. */
import { expect, test } from "bun:test";
import { COMMANDS } from "../../../src/cli/manual/commands.ts";
import { manPage } from "../../../src/cli/manual/man.ts";

/** A character and a backspace, with which groff makes bold letters. */
const OVERSTRIKE = new RegExp(`.${String.fromCharCode(8)}`, "g");

const page = manPage();

test("the page has every option of every command with its effect", () => {
  for (const { options } of COMMANDS) {
    for (const [name, { arity }] of Object.entries(options)) {
      const flag = (arity === "toggle" ? `--[no-]${name}` : `--${name}`).replaceAll("-", "\\-");
      expect(page).toContain(`\n.TP\n\\fB${flag}\\fR`);
    }
  }
});

test("no line of text is taken for a request", () => {
  const requests = page.match(/^[.'].*$/gm)!.map((line) => line.split(" ")[0]!);
  expect([...new Set(requests)].sort()).toEqual([".B", ".SH", ".SS", ".TH", ".TP", ".br"]);
});

test.skipIf(Bun.which("groff") === null)("groff formats the page without a warning", () => {
  const { stdout, stderr } = Bun.spawnSync(["groff", "-man", "-ww", "-Tutf8"], { stdin: Buffer.from(page) });
  expect(stderr.toString()).toBe("");
  const plain = stdout.toString().replaceAll(OVERSTRIKE, "");
  expect(plain).toContain("--max-num-seqs N");
});
