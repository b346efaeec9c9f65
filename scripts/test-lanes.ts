/** Runs test files in several processes of the test runner and counts the results from its reports. */
import { readdirSync, readFileSync, rmSync, statSync } from "node:fs";

export const root = new URL("../", import.meta.url).pathname;
/**
 * Number of processes at once: one per core of a machine with two cores. More processes would delay steps of engines that tests
 * expect on time.
 */
const LANES = 2;
/** Most seconds of test files that run one after another in a process. They share the loaded modules and the shared servers. */
const CHUNK_S = 30;
/** Assumed seconds of a test file that was never measured. */
const UNKNOWN_S = 1;

export interface Count {
  readonly passed: number;
  readonly failed: number;
}

export interface ProcessResult {
  readonly ok: boolean;
  readonly output: string;
  readonly wallS: number;
  /** CPU time of the process and of all children that it waited for, in seconds. */
  readonly cpuS: number;
}

/** Seconds that each test file takes, from `test/costs.json`, which scripts/test-costs.ts writes. */
export type Costs = Readonly<Record<string, number>>;
export const costs: Costs = JSON.parse(readFileSync(`${root}test/costs.json`, "utf8"));

export async function run(
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<ProcessResult> {
  const start = performance.now();
  // Pass the environment explicitly. Otherwise variables that this process has set would not be passed on.
  const child = Bun.spawn([...words], {
    cwd: root,
    env: { ...process.env, ...env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, complaint, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  const cpuS = Number(child.resourceUsage()?.cpuTime.total ?? 0) / 1e6;
  return { ok: code === 0, output: out + complaint, wallS: (performance.now() - start) / 1000, cpuS };
}

/** Returns the given test files and those in the given folders, sorted. */
export function filesOf(paths: readonly string[]): string[] {
  const files = paths.flatMap((path) => {
    if (!statSync(root + path).isDirectory()) return [path];
    const names = readdirSync(root + path, { recursive: true, encoding: "utf8" });
    return names.filter((name) => name.endsWith(".test.ts")).map((name) => `${path}/${name}`);
  });
  return [...new Set(files)].sort();
}

interface Chunk {
  readonly files: readonly string[];
  readonly seconds: number;
}

/** Packs the parts into chunks of at most `most` seconds, beginning with the longest part. */
function packed(parts: readonly Chunk[], most: number): Chunk[] {
  const chunks: Chunk[] = [];
  for (const part of parts.toSorted((a, b) => b.seconds - a.seconds)) {
    const at = chunks.findIndex(({ seconds }) => seconds + part.seconds <= most);
    const { files, seconds } = chunks[at] ?? { files: [], seconds: 0 };
    chunks[at < 0 ? chunks.length : at] = { files: [...files, ...part.files], seconds: seconds + part.seconds };
  }
  return chunks;
}

/**
 * Returns the groups of files that share a process. Files of one folder share a group as long as the group stays short, because
 * they load the same modules. Small groups of several folders are merged. The longest group is first, so that it starts early.
 */
export function chunksOf(files: readonly string[], costs: Costs, most = CHUNK_S): string[][] {
  const folders = Map.groupBy(files, (file) => file.slice(0, Math.max(0, file.lastIndexOf("/"))));
  const ofFolders = [...folders.values()].flatMap((all) =>
    packed(
      all.map((file) => ({ files: [file], seconds: costs[file] ?? UNKNOWN_S })),
      most,
    ),
  );
  const chunks = packed(ofFolders, most);
  return chunks.sort((a, b) => b.seconds - a.seconds).map((chunk) => [...chunk.files]);
}

/** Runs the jobs in their order, `lanes` of them at a time. */
export async function inLanes(jobs: readonly (() => Promise<void>)[], lanes = LANES): Promise<void> {
  const queue = [...jobs];
  const lane = async () => {
    for (let job = queue.shift(); job; job = queue.shift()) await job();
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}

/**
 * Programs that tests start (test/program.ts): the bundle that users install, and the test host. `scripts/build.ts --library`
 * makes both.
 */
const BUNDLES = {
  TEST_PROGRAM: `${root}build/npm/llm-understudy/server/main.js`,
  TEST_HOST: `${root}build/hosted/server/host.js`,
};

/**
 * Environment variable for JavaScriptCore. Hundreds of tests create one WebAssembly core each. By default, JavaScriptCore runs
 * a full collection before the next core if eight memories of old cores are not collected yet. That takes longer than most of
 * these tests. A thousand uncollected memories only occupy addresses.
 */
const ENGINE = { BUN_JSC_maxNumWasmFastMemories: "1000" };
/**
 * Settings of JavaScriptCore for processes that live a few seconds. The last compiler tiers of JavaScript and WebAssembly
 * finish too late for such processes, and parallel collector threads wait for each other. Whole runs (scripts/test-whole.ts)
 * use all tiers.
 */
const SHORT_LIVED = { BUN_JSC_useFTLJIT: "0", BUN_JSC_useOMGJIT: "0", BUN_JSC_numberOfGCMarkers: "1" };

/**
 * Runs these files in one process of the test runner, after the library is built. If a test fails, prints the output of the
 * process at the end.
 */
export async function testFiles(
  files: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Count & ProcessResult> {
  const report = `${root}build/junit-${Bun.hash(files.join()).toString(36)}.xml`;
  rmSync(report, { force: true }); // a report of an earlier run must not count for this run
  const words = ["test", "--only-failures", "--timeout", "60000", "--reporter=junit", `--reporter-outfile=${report}`];
  const ended = await run([process.execPath, ...words, ...files.map((file) => `./${file}`)], {
    ...BUNDLES,
    ...ENGINE,
    ...(env.TEST_WHOLE === undefined ? SHORT_LIVED : {}),
    ...env,
  });
  const text = await Bun.file(report)
    .text()
    .catch(() => "");
  rmSync(report, { force: true });
  const count = countOf(text, ended.ok);
  if (count.failed > 0) console.log(ended.output);
  return { ...ended, ...count };
}

/**
 * Counts tests from the report of the test runner. The report is missing if a test ended the process, and lacks files that
 * failed to load. So a failed process counts as at least one failure.
 */
export function countOf(report: string, succeeded: boolean): Count {
  const suites = report.match(/<testsuites\b[^>]*>/)?.[0] ?? "";
  const count = (key: string) => Number(suites.match(new RegExp(`\\b${key}="(\\d+)"`))?.[1] ?? 0);
  const failed = Math.max(count("failures"), succeeded && count("tests") > 0 ? 0 : 1);
  return { passed: Math.max(0, count("tests") - count("failures") - count("skipped")), failed };
}
