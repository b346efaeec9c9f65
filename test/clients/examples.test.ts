/**
 * Runs the examples for tests in other languages. The examples of Go and JUnit only run in the whole, if Go and Maven are
 * installed. Vitest's examples run in Bun's test runner, which knows its names.
 */
import { expect, setDefaultTimeout, test } from "bun:test";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sized } from "../size.ts";
import { findToolchain, MAVEN, missingLine, TOOLCHAINS } from "./toolchains.ts";

setDefaultTimeout(300_000);

const root = new URL("../../", import.meta.url).pathname;

async function run(words: readonly string[], cwd: string, env: Readonly<Record<string, string>> = {}) {
  const child = Bun.spawn([...words], { cwd, env: { ...process.env, ...env }, stdout: "pipe", stderr: "pipe" });
  const [out, complaint, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { out: out + complaint, code };
}

const env = { UNDERSTUDY: `${process.execPath} ${root}src/main.ts` };
const [go, maven] = [[TOOLCHAINS.go, "examples/go"] as const, [MAVEN, "examples/junit"] as const].map(
  ([toolchain, example]) => {
    if (sized("clients", { sample: true, whole: false })) return null;
    const program = findToolchain(toolchain);
    if (program === null) console.log(missingLine(toolchain, [example]));
    return program;
  },
) as [string | null, string | null];

test.skipIf(go === null)("the example for Go passes", async () => {
  expect(await run([go!, "test", "-count=1", "./..."], `${root}examples/go`, env)).toEqual({
    out: expect.stringContaining("ok"),
    code: 0,
  });
});

test.skipIf(maven === null)("the example for JUnit passes", async () => {
  const folder = mkdtempSync(join(tmpdir(), "understudy-junit-"));
  cpSync(`${root}examples/junit`, folder, { recursive: true });
  const { out, code } = await run([maven!, "-B", "-Dstyle.color=never", "test"], folder, env);
  rmSync(folder, { recursive: true });
  expect({ code, printed: code === 0 ? "" : out }).toEqual({ code: 0, printed: "" });
  expect(out).toContain("Tests run: 1, Failures: 0, Errors: 0, Skipped: 0");
});

test("the example for Vitest passes", async () => {
  expect(await run([process.execPath, "test", "./examples/vitest"], root)).toEqual({
    out: expect.stringContaining("2 pass"),
    code: 0,
  });
});
