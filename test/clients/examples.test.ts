/** Do the examples for tests in other languages pass? Go's in the whole, where Go is there; Vitest's by Bun's runner, which knows its names. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { sized } from "../size.ts";
import { findToolchain, TOOLCHAINS } from "./toolchains.ts";

setDefaultTimeout(300_000);

const root = new URL("../../", import.meta.url).pathname;

async function run(words: readonly string[], cwd: string, env: Readonly<Record<string, string>> = {}) {
  const child = Bun.spawn([...words], { cwd, env: { ...process.env, ...env }, stdout: "pipe", stderr: "pipe" });
  const [out, complaint, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { out: out + complaint, code };
}

const go = sized("clients", { sample: null, whole: findToolchain(TOOLCHAINS.go) });
test.skipIf(go === null)("examples/go", async () => {
  const env = { UNDERSTUDY: `${process.execPath} ${root}src/main.ts` };
  expect(await run([go!, "test", "-count=1", "./..."], `${root}examples/go`, env)).toEqual({
    out: expect.stringContaining("ok"),
    code: 0,
  });
});

test("examples/vitest", async () => {
  expect(await run([process.execPath, "test", "./examples/vitest"], root)).toEqual({
    out: expect.stringContaining("2 pass"),
    code: 0,
  });
});
