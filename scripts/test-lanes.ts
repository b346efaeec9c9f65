/** How do test files run side by side, and what did they come to? Several processes of the runner, and its reports. */
import { readdirSync, readFileSync, rmSync, statSync } from "node:fs";

export const root = new URL("../", import.meta.url).pathname;
/** Two cores; more processes would make steps late that tests want on time. */
const LANES = 2;
/** So many seconds of cheap files share a process, and in it what they load and the servers that they share. */
const CHUNK_S = 30;
/** Seconds counted for a file that nobody has measured. */
const UNKNOWN_S = 1;

export interface Count {
  readonly passed: number;
  readonly failed: number;
}

export interface Ended {
  readonly ok: boolean;
  readonly output: string;
  readonly wallS: number;
  /** Processor time of the file's own process and of all that it waited for. */
  readonly cpuS: number;
}

/** Seconds per file, `test/costs.json`: scripts/test-costs.ts writes it. */
export type Costs = Readonly<Record<string, number>>;
export const costs: Costs = JSON.parse(readFileSync(`${root}test/costs.json`, "utf8"));

export async function run(words: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  const start = performance.now();
  // The environment has to be named: what is set in it here would not be passed on.
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

/** Test files at and under the paths, sorted. */
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

/** Puts each where there is room, the dearest first. */
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
 * Files that share a process: those of a folder, which load the same, then what is left over of several. The dearest first:
 * a lane that is free takes the next ones.
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

/** Takes the jobs in their order, so many at a time. */
export async function inLanes(jobs: readonly (() => Promise<void>)[], lanes = LANES): Promise<void> {
  const queue = [...jobs];
  const lane = async () => {
    for (let job = queue.shift(); job; job = queue.shift()) await job();
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}

/** Made by `scripts/build.ts --library`; tests start them (test/program.ts): what users install, and servers of its bundle. */
const BUNDLES = {
  TEST_PROGRAM: `${root}build/npm/llm-understudy/server/main.js`,
  TEST_HOST: `${root}build/hosted/server/host.js`,
};

/**
 * A core each is what hundreds of tests make. When eight of their memories are not collected yet, JavaScriptCore collects all
 * of a process before it makes the next one, which takes longer than most of these tests; a thousand only hold addresses.
 */
const ENGINE = { BUN_JSC_maxNumWasmFastMemories: "1000" };
/**
 * Most of these processes live for seconds: what the last tiers of JavaScript and WebAssembly compile comes too late, and
 * threads that collect garbage together wait for each other. Wholes (scripts/test-whole.ts) run with all tiers.
 */
const SHORT_LIVED = { BUN_JSC_useFTLJIT: "0", BUN_JSC_useOMGJIT: "0", BUN_JSC_numberOfGCMarkers: "1" };

/** One process of the runner for these files, after the library is built; what it prints of failures is shown when it ends. */
export async function testFiles(
  files: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Count & Ended> {
  const report = `${root}build/junit-${Bun.hash(files.join()).toString(36)}.xml`;
  rmSync(report, { force: true }); // an old one must not speak for this run
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
 * From the runner's report. It is missing when a test ended the process, and it misses files that fail to load, so how
 * the process ended counts too.
 */
export function countOf(report: string, succeeded: boolean): Count {
  const suites = report.match(/<testsuites\b[^>]*>/)?.[0] ?? "";
  const count = (key: string) => Number(suites.match(new RegExp(`\\b${key}="(\\d+)"`))?.[1] ?? 0);
  const failed = Math.max(count("failures"), succeeded && count("tests") > 0 ? 0 : 1);
  return { passed: Math.max(0, count("tests") - count("failures") - count("skipped")), failed };
}
