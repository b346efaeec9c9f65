/** Runs the examples for pytest, which is installed together with schemathesis. A stub takes the place of a front end. */
import { expect, test } from "bun:test";
import { existsSync } from "node:fs";

const root = new URL("../../", import.meta.url).pathname;
const stub = `${root}test/cli/front/stub-front.ts`;
const python = `${root}.venv/bin/python`;

// `npx bun run test` prints a line if .venv is missing.
test.skipIf(!existsSync(python))(
  "the examples for pytest pass",
  async () => {
    const child = Bun.spawn([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "."], {
      cwd: `${root}examples/pytest`,
      env: { ...process.env, PYTHONDONTWRITEBYTECODE: "1", FRONT_END: `${process.execPath} ${stub} serve m` },
      stdout: "pipe",
      stderr: "pipe",
    });
    const [out, code] = await Promise.all([child.stdout.text(), child.exited]);
    expect([out, code]).toEqual([expect.stringContaining("4 passed"), 0]);
  },
  60_000,
);
