/** Tests the command that lines to copy begin with: it starts this checkout's program, from whichever folder the user is in. */
import { expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { version } from "../../package.json";
import { checkout } from "../../src/cli/checkout.ts";
import { main } from "../program.ts";

const root = new URL("../../", import.meta.url).pathname;

test("the checkout is found from its sources", () => {
  expect(checkout()).toBe(root);
});

const printed = async (cwd: string): Promise<string> => {
  const list = await Bun.$`${process.execPath} ${main} timing list`.cwd(cwd).text();
  return /^To plot a preset: (.*) timing show PRESET$/m.exec(list)![1]!;
};

test("a printed command starts the program from the folder in which it was printed", async () => {
  const folder = mkdtempSync(join(tmpdir(), "understudy-own-command-"));
  const blank = join(folder, "a folder");
  mkdirSync(blank);
  try {
    expect(await printed(root)).toBe("./bin/understudy");
    for (const cwd of [blank, join(root, "test/cli")]) {
      const command = await printed(cwd);
      expect(await Bun.$`sh -c ${`${command} --version`}`.cwd(cwd).text()).toContain(version);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}, 60_000);

test("the program is named in a folder that was deleted, too", async () => {
  const folder = mkdtempSync(join(tmpdir(), "understudy-deleted-"));
  const words = `cd "${folder}" && rmdir "${folder}" && exec "${process.execPath}" "${main}" timing list`;
  const list = await Bun.$`sh -c ${words}`.text();
  expect(list).toContain(`To plot a preset: ${join(root, "bin/understudy")} timing show PRESET`);
});
