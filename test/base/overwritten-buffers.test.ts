/** Checks that the debug mode finds code that reads a reused buffer after its turn of the event loop. */
import { expect, test } from "bun:test";
import { OVERWRITTEN_BYTE } from "../../src/base/overwritten-buffers.ts";

const SENT = "d\r\ndata: hello\n\n\r\n";

async function readLate(mode: string, ...flags: readonly string[]): Promise<string> {
  const script = new URL("late-reader.ts", import.meta.url).pathname;
  const child = Bun.spawn([process.execPath, script, ...flags], {
    env: { ...process.env, UNDERSTUDY_OVERWRITE_BUFFERS: mode },
    stderr: "inherit",
  });
  return (await child.stdout.text()).replace(/\n$/, "");
}

test("a late read gets overwritten bytes in the mode", async () => {
  expect(await readLate("1")).toBe(String.fromCharCode(OVERWRITTEN_BYTE).repeat(SENT.length));
});

test("the same late read stays unnoticed without the mode", async () => {
  expect(await readLate("0")).toBe(SENT);
});

test("a reader that copies in time gets its bytes in the mode", async () => {
  expect(await readLate("1", "--copy")).toBe(SENT);
});
