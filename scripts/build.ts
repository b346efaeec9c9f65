/**
 * Builds the files in `build/` that are missing or older than their sources: both cores, vocabulary, answers, the page of
 * reports and the types of the package's options.
 * - `--types`: builds only the types of the options.
 * - `--library`: also builds `build/npm/`, the packages as they are published, and `build/hosted/`, which tests start.
 * - `--all`: builds everything, even if it is up to date.
 */
import { existsSync, mkdirSync, readdirSync, statSync } from "node:fs";

const root = new URL("../", import.meta.url).pathname;

interface Target {
  readonly makes: readonly string[];
  readonly from: readonly string[];
  readonly command: readonly string[];
}

const asc = (target: string, config = "asconfig.json") => [
  "node_modules/.bin/asc",
  "--config",
  config,
  "--target",
  target,
];
const trtllm = (target: string) => asc(target, "asconfig.trtllm.json");

/** Builds the types that src/embed imports. Any file of src may define a default value that these types quote. */
const optionTypes: Target = {
  makes: ["engine-option-types", "option-types", "foreign-option-types"].map((name) => `build/option-types/${name}.ts`),
  from: ["scripts/option-types.ts", "src"],
  command: ["scripts/option-types.ts"],
};

const targets: readonly Target[] = [
  optionTypes,
  { makes: ["build/core.wasm"], from: ["assembly", "asconfig.json"], command: asc("release") },
  { makes: ["build/core.debug.wasm"], from: ["assembly", "asconfig.json"], command: asc("debug") },
  {
    makes: ["build/trtllm.wasm"],
    from: ["assembly", "asconfig.json", "asconfig.trtllm.json"],
    command: trtllm("release"),
  },
  {
    makes: ["build/trtllm.debug.wasm"],
    from: ["assembly", "asconfig.json", "asconfig.trtllm.json"],
    command: trtllm("debug"),
  },
  {
    makes: ["build/vocabulary.bin", "build/answers.bin"],
    from: ["scripts/pack-vocabulary.ts", "scripts/answer-grammar.ts", "src/text"],
    command: ["scripts/pack-vocabulary.ts"],
  },
  {
    makes: ["build/report.js", "build/report.css"],
    from: ["scripts/pack-report.ts", "src/tools/report/page", "src/tools/report/plot.ts"],
    command: ["scripts/pack-report.ts"],
  },
];

/** Sources of the bundles, and of the files that lie next to the bundles. */
const BUNDLED = [...targets.flatMap(({ from }) => from), "src", "package.json", "scripts/bundles.ts"];

/** Builds of bundles. A bundle includes the results of all other builds. */
const bundles: readonly Target[] = [
  {
    makes: ["llm-understudy", "llm-understudy-engine"].map((name) => `build/npm/${name}/package.json`),
    from: [...BUNDLED, "bin", "docs", "tsconfig.build.json", "scripts/stage-packages.ts", "scripts/packed-notice.ts"],
    command: ["scripts/stage-packages.ts"],
  },
  {
    makes: ["build/hosted/server/host.js"],
    from: [...BUNDLED, "test/host.ts", "scripts/bundle-host.ts"],
    command: ["scripts/bundle-host.ts"],
  },
];

/** Returns the time of the latest change of a file, or of any file under a folder, in milliseconds since 1970. */
function changedMs(path: string): number {
  const stat = statSync(root + path);
  if (!stat.isDirectory()) return stat.mtimeMs;
  return Math.max(0, ...readdirSync(root + path).map((name) => changedMs(`${path}/${name}`)));
}

function isStale({ makes, from }: Target): boolean {
  if (!makes.every((path) => existsSync(root + path))) return true;
  return Math.max(...from.map(changedMs)) > Math.min(...makes.map(changedMs));
}

/**
 * The message of the compiler asc after another round of its optimizer made the core a few bytes larger. This is not an error,
 * so the message is not printed.
 */
const NO_NEWS = "Last converge was suboptimal.\n";

/**
 * Turns off the last compiler tier for WebAssembly. The compiler asc contains a large WebAssembly program, and half of its time
 * would go into optimizing that program.
 */
const ENV = { ...process.env, BUN_JSC_useOMGJIT: "0" };

async function build({ command, makes }: Target): Promise<boolean> {
  // Use this Bun, because `bun` may not be on the path.
  const child = Bun.spawn([process.execPath, ...command], { cwd: root, env: ENV, stdout: "pipe", stderr: "pipe" });
  const [output, said] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  process.stderr.write(said.replace(NO_NEWS, ""));
  if ((await child.exited) === 0) return true;
  console.error(`${output}build of ${makes.join(", ")} failed`);
  return false;
}

mkdirSync(`${root}build`, { recursive: true });
const asked = (flag: string) => process.argv.includes(flag);
const isWhole = asked("--all") || asked("--library");
const wanted = (some: readonly Target[]) => (asked("--all") ? some : some.filter(isStale));
// Find all stale targets before the first build, because a build changes the times of files.
const [first, then] = [wanted(asked("--types") ? [optionTypes] : targets), wanted(isWhole ? bundles : [])];
const built =
  (await Promise.all(first.map(build))).every(Boolean) && (await Promise.all(then.map(build))).every(Boolean);
process.exit(built ? 0 : 1);
