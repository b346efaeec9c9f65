/** Runs the example for pytest, which is installed together with schemathesis. */
import { expect, test } from "bun:test";
import { existsSync } from "node:fs";

const root = new URL("../../", import.meta.url).pathname;
const python = `${root}.venv/bin/python`;

// `npx bun run test` prints a line if .venv is missing.
test.skipIf(!existsSync(python))(
  "the example for pytest passes",
  async () => {
    const child = Bun.spawn([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "."], {
      cwd: `${root}examples/pytest`,
      env: { ...process.env, PYTHONDONTWRITEBYTECODE: "1" },
      stdout: "pipe",
      stderr: "pipe",
    });
    const [out, code] = await Promise.all([child.stdout.text(), child.exited]);
    expect([out, code]).toEqual([expect.stringContaining("3 passed"), 0]);
  },
  60_000,
);
