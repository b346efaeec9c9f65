/** Does everything hold? Build, lint, types, tests; the last line is the runner's own count: "N passed, N failed". */
import { existsSync, rmSync, writeFileSync } from "node:fs";

const root = new URL("../", import.meta.url).pathname;
const junit = "build/junit.xml";

/** True when it succeeded. */
async function step(name: string, command: readonly string[]): Promise<boolean> {
  const start = performance.now();
  // This Bun, since `bun` may not be on the path.
  const child = Bun.spawn([process.execPath, ...command], { cwd: root, stdout: "inherit", stderr: "inherit" });
  const ok = (await child.exited) === 0;
  console.log(`${name}: ${ok ? "ok" : "FAILED"} (${((performance.now() - start) / 1000).toFixed(1)} s)`);
  return ok;
}

/** The Python client's tests need an environment with the client in it; CI has to have one. */
function pythonIsMissing(): boolean {
  if (existsSync(`${root}.venv/bin/python`)) return false;
  console.log(
    "The Python client's tests are skipped: no .venv (python3 -m venv .venv && .venv/bin/pip install openai==3.52.0)",
  );
  return Boolean(process.env.CI);
}

/**
 * From the runner's report. It is missing when a test ended the process, and it misses files that fail to load, so the
 * exit code counts too.
 */
async function counts(succeeded: boolean): Promise<{ passed: number; failed: number }> {
  const report = await Bun.file(root + junit)
    .text()
    .catch(() => "");
  const suites = report.match(/<testsuites\b[^>]*>/)?.[0] ?? "";
  const count = (key: string) => Number(suites.match(new RegExp(`\\b${key}="(\\d+)"`))?.[1] ?? 0);
  const failed = Math.max(count("failures"), succeeded && count("tests") > 0 ? 0 : 1);
  return { passed: count("tests") - count("failures") - count("skipped"), failed };
}

let broken = 0;
if (!(await step("build", ["scripts/build.ts", "--library"]))) broken++;
if (!(await step("lint", ["run", "lint"]))) broken++;
if (!(await step("types", ["run", "types"]))) broken++;
if (pythonIsMissing()) broken++;

rmSync(root + junit, { force: true }); // an old one must not speak for this run
const ok = await step("tests", [
  "test",
  "--only-failures",
  "--timeout",
  "60000",
  "--reporter=junit",
  `--reporter-outfile=${junit}`,
  ...process.argv.slice(2),
]);
const { passed, failed } = await counts(ok);
const verdict = `${passed} passed, ${failed + broken} failed`;
writeFileSync(`${root}build/verdict.txt`, `${verdict}\n`);
console.log(verdict);
process.exit(failed + broken > 0 ? 1 : 0);
