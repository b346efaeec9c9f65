/**
 * Does everything hold? Build, lint, types and all tests, in two lanes, and beside them what mostly waits; tests of two
 * sizes (test/size.ts) by their samples.
 * The last line is the runner's own count: "N passed, N failed". `--quick`: what is worth waiting for between two changes.
 * Paths of test files as arguments run those alone, with `--only-tests` after the build alone.
 */
import { existsSync, writeFileSync } from "node:fs";
import { chunksOf, costs, filesOf, inLanes, root, run, testFiles } from "./test-lanes.ts";

/** The tests that need Prometheus; `--without-prometheus` leaves them out. */
const PROMETHEUS = "test/prometheus";
const WITHOUT = "--without-prometheus";
const ONLY_TESTS = "--only-tests";
const QUICK = "--quick";
/** These wait for times to pass, and use less than half a core meanwhile: a lane would stand still. */
const WAITING = [
  "test/prometheus/live.test.ts",
  ...["compat", "http", "scheduler-flags", "dev-routes", "kv-transfer", "metrics-lora"].map(
    (name) => `test/conformance/${name}.test.ts`,
  ),
];
/** Beside lint and types: the rules of the repository, the core against models and recordings, one live server. */
const QUICK_PATHS = [
  "test/tidy.test.ts",
  ...["blocks", "lru", "prefix", "scheduler"].map((name) => `test/assembly/${name}.model.test.ts`),
  "test/golden",
  "test/conformance/fuzzed-requests.test.ts",
];

let passed = 0;
let failed = 0;
let cpuS = 0;
const begun = performance.now();

/** True when it succeeded. */
async function step(name: string, words: readonly string[]): Promise<void> {
  // This Bun, since `bun` may not be on the path.
  const ended = await run([process.execPath, ...words]);
  cpuS += ended.cpuS;
  if (!ended.ok) {
    failed++;
    console.log(ended.output);
  }
  const times = `${ended.wallS.toFixed(1)} s, ${ended.cpuS.toFixed(1)} s of CPU`;
  console.log(`${name}: ${ended.ok ? "ok" : "FAILED"} (${times})`);
}

async function tests(files: readonly string[]): Promise<void> {
  const ended = await testFiles(files);
  passed += ended.passed;
  failed += ended.failed;
  cpuS += ended.cpuS;
  const name = files.length === 1 ? files[0]! : `${files[0]} and ${files.length - 1} more`;
  const times = `${ended.wallS.toFixed(1)} s, ${ended.cpuS.toFixed(1)} s of CPU`;
  console.log(`${name}: ${ended.passed} passed, ${ended.failed} failed (${times})`);
}

/** The Python clients' tests need an environment with the clients in it; CI has to have one. */
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

/** What this run is of. */
function chosen(): string[] {
  const quick = process.argv.includes(QUICK);
  const paths = process.argv.slice(2).filter((word) => ![WITHOUT, ONLY_TESTS, QUICK].includes(word));
  if (quick) return filesOf(QUICK_PATHS);
  if (paths.length > 0) return filesOf(paths.map((path) => path.replace(/^\.\//, "").replace(/\/$/, "")));
  const all = filesOf(["test"]);
  if (!process.argv.includes(WITHOUT) && !prometheusIsMissing()) return all;
  if (!process.argv.includes(WITHOUT)) failed++;
  return all.filter((file) => !file.startsWith(`${PROMETHEUS}/`));
}

const files = chosen();
await step("build", ["scripts/build.ts", "--library"]);
const waiting = files.filter((file) => WAITING.includes(file));
const busy = files.filter((file) => !WAITING.includes(file));
const jobs = chunksOf(busy, costs).map((chunk) => () => tests(chunk));
if (!process.argv.includes(ONLY_TESTS)) {
  jobs.push(() => step("lint", ["run", "lint"]));
  jobs.push(() => step("types", ["run", "types"]));
  if (!process.argv.includes(QUICK) && pythonIsMissing()) failed++;
}
const besides = chunksOf(waiting, costs).map((chunk) => () => tests(chunk));
await Promise.all([inLanes(jobs), inLanes(besides, 1)]);

console.log(`all: ${((performance.now() - begun) / 1000).toFixed(1)} s, ${cpuS.toFixed(0)} s of CPU`);
const verdict = `${passed} passed, ${failed} failed`;
writeFileSync(`${root}build/verdict.txt`, `${verdict}\n`);
console.log(verdict);
process.exit(failed > 0 ? 1 : 0);
