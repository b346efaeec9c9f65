/** Tests that all readers of the proxy's records refuse an empty or broken one. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

setDefaultTimeout(60_000);

const main = new URL("../../../src/main.ts", import.meta.url).pathname;
const root = mkdtempSync(join(tmpdir(), "understudy-damaged-"));
afterAll(() => rmSync(root, { recursive: true }));

const folder = () => mkdtempSync(join(root, "records-"));

test("serve --fixtures refuses a record that is empty or broken, with one line and exit code 2", () => {
  const whole = '{"match":{},"answer":{"recorded":{"status":200,"headers":{},"events":[[1,"x"]]}}}';
  for (const [text, why] of [
    ["", "000002.json: has 0 bytes, must hold a record"],
    [" \n", "000002.json: holds no fixture, must hold a record"],
    [whole.slice(0, 40), "000002.json:1: not YAML: "],
    ["\0".repeat(100), "000002.json"],
    ['{"match":{},"answer":{"recorded":{}}}', "000002.json:1: answer.recorded: "],
  ] as const) {
    const path = folder();
    writeFileSync(join(path, "000001.json"), whole);
    writeFileSync(join(path, "000002.json"), text);
    const { exitCode, stderr } = Bun.spawnSync([process.execPath, main, "serve", "--port", "0", "--fixtures", path], {
      timeout: 20_000,
    });
    const message = stderr.toString();
    expect([exitCode, message.split("\n").length, message.includes("; delete the file, or record again")]).toEqual([
      2,
      2,
      true,
    ]);
    expect(message).toContain(`--fixtures ${path}: ${why}`);
  }
});

test("timing fit refuses an incomplete record", () => {
  const path = folder();
  writeFileSync(join(path, "000001.json"), "");
  const { exitCode, stderr } = Bun.spawnSync([process.execPath, main, "timing", "fit", path]);
  expect([exitCode, stderr.toString()]).toEqual([
    2,
    `understudy timing fit: "${join(path, "000001.json")}": is not a complete record; delete the file, or record again\n`,
  ]);
});
