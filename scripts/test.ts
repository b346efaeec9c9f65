/**
 * Runs the build, lint, types and all tests, with two test processes at a time. A third process runs tests that mostly wait.
 * Tests of two sizes (test/size.ts) run their samples. The last line is the total of the test runner's counts: "N passed, N
 * failed".
 * - `npx bun run test quick` runs a selection for use between two changes.
 * - With the name of a test of two sizes, runs its whole (test-whole.ts).
 * - With paths of test files, runs only those files. `--only-tests` then leaves out lint and types.
 */
import { existsSync, writeFileSync } from "node:fs";
import { chunksOf, costs, filesOf, inLanes, root, run, testFiles } from "./test-lanes.ts";
import { SIZED } from "./test-sizes.ts";

/** Folder of the tests that need Prometheus. `--without-prometheus` leaves them out. */
const PROMETHEUS = "test/prometheus";
const WITHOUT = "--without-prometheus";
const ONLY_TESTS = "--only-tests";
const QUICK = "quick";
/**
 * Tests that mostly wait for times to pass, and use less than half a core. In one of the two test processes they would delay
 * other tests.
 */
const WAITING = [
  "test/prometheus/live.test.ts",
  "test/clients/matrix.test.ts",
  "test/tools/stress/replay.test.ts",
  ...["compat", "golden-api", "http", "scheduler-flags", "dev-routes", "kv-transfer", "metrics-lora"].map(
    (name) => `test/conformance/${name}.test.ts`,
  ),
];
/**
 * Paths of the tests that `quick` runs in addition to lint and types: the rules of the repository, the core against models and
 * recordings, one live server.
 */
const QUICK_PATHS = [
  ...["test/tidy.test.ts", "test/tidy-words.test.ts"],
  ...["blocks", "lru", "prefix", "scheduler"].map((name) => `test/assembly/${name}.model.test.ts`),
  "test/golden",
  "test/conformance/fuzzed-requests.test.ts",
];

const words = process.argv.slice(2).filter((word) => word !== "--");
if (words[0] !== undefined && words[0] in SIZED) {
  const { runWhole } = await import("./test-whole.ts");
  process.exit(await runWhole(words[0], words.slice(1)));
}
const quick = words.includes(QUICK);

let passed = 0;
let failed = 0;
let cpuS = 0;
const begun = performance.now();

/** Runs a step of the build or a check, prints its result, and counts a failure. */
async function step(name: string, words: readonly string[]): Promise<void> {
  // Use this Bun, because `bun` may not be on the path.
  const result = await run([process.execPath, ...words]);
  cpuS += result.cpuS;
  if (!result.ok) {
    failed++;
    console.log(result.output);
  }
  const times = `${result.wallS.toFixed(1)} s, ${result.cpuS.toFixed(1)} s of CPU`;
  console.log(`${name}: ${result.ok ? "ok" : "FAILED"} (${times})`);
}

async function tests(files: readonly string[]): Promise<void> {
  const result = await testFiles(files);
  passed += result.passed;
  failed += result.failed;
  cpuS += result.cpuS;
  const name = files.length === 1 ? files[0]! : `${files[0]} and ${files.length - 1} more`;
  const times = `${result.wallS.toFixed(1)} s, ${result.cpuS.toFixed(1)} s of CPU`;
  console.log(`${name}: ${result.passed} passed, ${result.failed} failed (${times})`);
}

/**
 * Reports whether the Python clients are missing although this run needs them. Only CI needs them. Prints a line if they are
 * not installed.
 */
function pythonIsMissing(): boolean {
  if (existsSync(`${root}.venv/bin/python`)) return false;
  console.log(
    "The Python client's tests are skipped: no .venv (python3 -m venv .venv && .venv/bin/pip install -r test/clients/requirements/sdks.txt)",
  );
  return Boolean(process.env.CI);
}

/**
 * Reports whether Prometheus or promtool is missing. The tests against Prometheus cannot run without them, which counts as a
 * failure.
 */
function prometheusIsMissing(): boolean {
  const missing = ["prometheus", "promtool"].filter((name) => Bun.which(name) === null);
  if (missing.length === 0) return false;
  console.log(`${missing.join(" and ")}: not on the path, so the tests in ${PROMETHEUS}/ did not run.`);
  console.log(`Install them (on Debian: apt-get install prometheus), or leave those tests out with ${WITHOUT}`);
  return true;
}

/** Returns the test files of this run. */
function chosen(): string[] {
  const paths = words.filter((word) => ![WITHOUT, ONLY_TESTS, QUICK].includes(word));
  if (quick) return filesOf(QUICK_PATHS);
  if (paths.length > 0) return filesOf(paths.map((path) => path.replace(/^\.\//, "").replace(/\/$/, "")));
  const all = filesOf(["test"]);
  if (!words.includes(WITHOUT) && !prometheusIsMissing()) return all;
  if (!words.includes(WITHOUT)) failed++;
  return all.filter((file) => !file.startsWith(`${PROMETHEUS}/`));
}

const files = chosen();
await step("build", ["scripts/build.ts", "--library"]);
const waiting = files.filter((file) => WAITING.includes(file));
const busy = files.filter((file) => !WAITING.includes(file));
const jobs = chunksOf(busy, costs).map((chunk) => () => tests(chunk));
if (!words.includes(ONLY_TESTS)) {
  jobs.push(() => step("lint", ["run", "lint"]));
  jobs.push(() => step("types", ["run", "types"]));
  if (!quick && pythonIsMissing()) failed++;
}
const waitingJobs = chunksOf(waiting, costs).map((chunk) => () => tests(chunk));
await Promise.all([inLanes(jobs), inLanes(waitingJobs, 1)]);

console.log(`all: ${((performance.now() - begun) / 1000).toFixed(1)} s, ${cpuS.toFixed(0)} s of CPU`);
const verdict = `${passed} passed, ${failed} failed`;
writeFileSync(`${root}build/verdict.txt`, `${verdict}\n`);
console.log(verdict);
process.exit(failed > 0 ? 1 : 0);
