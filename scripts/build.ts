/** Build what `build/` lacks, or has older than its sources: both cores, and vocabulary and answers. `--all`: everything. */
import { existsSync, mkdirSync, readdirSync, statSync } from "node:fs";

const root = new URL("../", import.meta.url).pathname;

interface Target {
  readonly makes: readonly string[];
  readonly from: readonly string[];
  readonly command: readonly string[];
}

const asc = (target: string) => ["node_modules/.bin/asc", "--target", target];

const targets: readonly Target[] = [
  { makes: ["build/core.wasm"], from: ["assembly", "asconfig.json"], command: asc("release") },
  { makes: ["build/core.debug.wasm"], from: ["assembly", "asconfig.json"], command: asc("debug") },
  {
    makes: ["build/vocabulary.bin", "build/answers.bin"],
    from: ["scripts/pack-vocabulary.ts", "src/content"],
    command: ["scripts/pack-vocabulary.ts"],
  },
];

/** Latest change of a file, or of any file under a folder; ms. */
function changedMs(path: string): number {
  const stat = statSync(root + path);
  if (!stat.isDirectory()) return stat.mtimeMs;
  return Math.max(0, ...readdirSync(root + path).map((name) => changedMs(`${path}/${name}`)));
}

function isStale({ makes, from }: Target): boolean {
  if (!makes.every((path) => existsSync(root + path))) return true;
  return Math.max(...from.map(changedMs)) > Math.min(...makes.map(changedMs));
}

async function build({ command, makes }: Target): Promise<boolean> {
  // This Bun, since `bun` may not be on the path.
  const child = Bun.spawn([process.execPath, ...command], { cwd: root, stdout: "pipe", stderr: "inherit" });
  const output = await new Response(child.stdout).text();
  if ((await child.exited) === 0) return true;
  console.error(`${output}build of ${makes.join(", ")} failed`);
  return false;
}

mkdirSync(`${root}build`, { recursive: true });
const wanted = process.argv.includes("--all") ? targets : targets.filter(isStale);
const built = await Promise.all(wanted.map(build));
process.exit(built.every(Boolean) ? 0 : 1);
