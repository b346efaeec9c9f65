/**
 * Does everything hold? Build, lint, types, tests, then those that only compute and beside them those that wait for real
 * clients and a real Prometheus, in CI a minute of the long ones (`test:long`); the last line is the runner's own count:
 * "N passed, N failed". Paths of test files as arguments run those alone, with `--only-tests` after the build alone.
 */
import { existsSync, rmSync, writeFileSync } from "node:fs";

const root = new URL("../", import.meta.url).pathname;
/** The tests that need Prometheus; `--without-prometheus` leaves them out. */
const PROMETHEUS = "test/prometheus";
const WITHOUT = "--without-prometheus";
/** The tests with real clients. */
const CLIENTS = "test/clients";
/** The tests that do nothing but compute. They run beside those that wait for clients and Prometheus. */
const COMPUTED = ["test/sim", "test/model", "test/golden", "test/structured"];
/** The tests that take as long as they are told; and how long that is in CI: a minute in all. */
const LONG = "test/long";
const SAMPLE_SECONDS = "22";
const ONLY_TESTS = "--only-tests";

/** True when it succeeded. */
async function step(name: string, command: readonly string[]): Promise<boolean> {
  const start = performance.now();
  // This Bun, since `bun` may not be on the path.
  // The environment has to be named: what is set in it here would not be passed on.
  const child = Bun.spawn([process.execPath, ...command], {
    cwd: root,
    env: process.env,
    stdout: "inherit",
    stderr: "inherit",
  });
  const ok = (await child.exited) === 0;
  console.log(`${name}: ${ok ? "ok" : "FAILED"} (${((performance.now() - start) / 1000).toFixed(1)} s)`);
  return ok;
}

/** The Python client's tests need an environment with the client in it; CI has to have one. */
function pythonIsMissing(): boolean {
  if (existsSync(`${root}.venv/bin/python`)) return false;
  console.log(
    "The Python client's tests are skipped: no .venv (python3 -m venv .venv && .venv/bin/pip install -r test/clients/requirements/sdks.txt)",
  );
  return Boolean(process.env.CI);
}

/** Debian's package has both; without them the tests against Prometheus cannot run, and that counts as a failure. */
function prometheusIsMissing(): boolean {
  const missing = ["prometheus", "promtool"].filter((name) => Bun.which(name) === null);
  if (missing.length === 0) return false;
  console.log(`${missing.join(" and ")}: not on the path, so the tests in ${PROMETHEUS}/ did not run.`);
  console.log(`Install them (on Debian: apt-get install prometheus), or leave those tests out with ${WITHOUT}`);
  return true;
}

/** Runs test files and counts them. */
async function tests(name: string, args: readonly string[]): Promise<{ passed: number; failed: number }> {
  const junit = `build/junit-${name}.xml`;
  rmSync(root + junit, { force: true }); // an old one must not speak for this run
  const runner = ["test", "--only-failures", "--timeout", "60000", "--reporter=junit", `--reporter-outfile=${junit}`];
  return counts(junit, await step(name, [...runner, ...args]));
}

/**
 * From the runner's report. It is missing when a test ended the process, and it misses files that fail to load, so the
 * exit code counts too.
 */
async function counts(junit: string, succeeded: boolean): Promise<{ passed: number; failed: number }> {
  const report = await Bun.file(root + junit)
    .text()
    .catch(() => "");
  const suites = report.match(/<testsuites\b[^>]*>/)?.[0] ?? "";
  const count = (key: string) => Number(suites.match(new RegExp(`\\b${key}="(\\d+)"`))?.[1] ?? 0);
  const failed = Math.max(count("failures"), succeeded && count("tests") > 0 ? 0 : 1);
  return { passed: count("tests") - count("failures") - count("skipped"), failed };
}

const chosen = process.argv.slice(2).filter((argument) => ![WITHOUT, ONLY_TESTS].includes(argument));
const withPrometheus = chosen.length === 0 && !process.argv.includes(WITHOUT);

let broken = 0;
if (!(await step("build", ["scripts/build.ts", "--library"]))) broken++;
if (!process.argv.includes(ONLY_TESTS)) {
  if (!(await step("lint", ["run", "lint"]))) broken++;
  if (!(await step("types", ["run", "types"]))) broken++;
  if (pythonIsMissing()) broken++;
}

const others = ["--path-ignore-patterns", `{${[PROMETHEUS, CLIENTS, LONG, ...COMPUTED].join()}}/**`];
const results = [await tests("tests", chosen.length > 0 ? chosen : others)];
if (chosen.length === 0) {
  const waiting = [CLIENTS];
  if (withPrometheus && prometheusIsMissing()) broken++;
  else if (withPrometheus) waiting.push(PROMETHEUS);
  results.push(...(await Promise.all([tests("computed", COMPUTED), tests("waiting", waiting)])));
}

if (chosen.length === 0 && process.env.CI) {
  process.env.UNDERSTUDY_LONG_SECONDS ??= SAMPLE_SECONDS;
  results.push(await tests("long", [LONG]));
}

const sum = (key: "passed" | "failed") => results.reduce((total, result) => total + result[key], 0);
const failed = sum("failed") + broken;
const verdict = `${sum("passed")} passed, ${failed} failed`;
writeFileSync(`${root}build/verdict.txt`, `${verdict}\n`);
console.log(verdict);
process.exit(failed > 0 ? 1 : 0);
