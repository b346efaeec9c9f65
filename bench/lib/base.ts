/**
 * Compares this tree with an earlier revision, for a bench with `--base REV --pairs N`. Each of the N rounds runs the bench of
 * REV twice, in a worktree of REV, and the bench of this tree once. All other words of the command line go to each run.
 */
import { mkdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { git, has, number, progress, RESULTS, root, save, table, text } from "./bench.ts";
import { type Costs, compareRounds, type MetricComparison, passedOn, type Round } from "./compared.ts";
import { lastLine } from "./kept-lines.ts";
import { inTurns } from "./servers.ts";

export const BASE_FLAGS = ["--base", "--pairs", RESULTS];
/** Default of `--pairs`. */
const PAIRS = 5;

export interface Bench {
  /** Name of the result's file. */
  readonly name: string;
  /** Path of the bench from the repository's root. Revisions in which the bench has another path cannot be compared. */
  readonly script: string;
  /** Additional flags of each run, such as fewer repetitions within a run. */
  readonly flags?: readonly string[];
  /** Paths of the costs in a line of results, by name: `figures.with.mean`. Or a function that reads the costs from the line. */
  readonly costs: Costs<string> | ((line: never) => Costs);
}

/** Runs the comparison and ends the process if the command line has `--base`. Returns at once otherwise. */
export async function compareWithBase(bench: Bench): Promise<void> {
  if (!has("--base")) return;
  const pairs = number("--pairs", PAIRS);
  if (!Number.isInteger(pairs) || pairs < 1) return refuse(`--pairs ${pairs}: must be a whole number of at least 1`);
  if (has("--server")) return refuse("--server: not with --base, which runs the server of each tree");
  try {
    process.exit(await atRevision(text("--base", ""), (folder, commit) => runComparison(bench, pairs, folder, commit)));
  } catch (error) {
    console.error(`\n${error instanceof Error ? error.message : error}`);
    process.exit(1);
  }
}

/**
 * Calls `use` with the folder of a built worktree of the revision, and removes the worktree afterwards. Signals that end the
 * bench remove it, too. Ends the bench if there is no such revision.
 */
export async function atRevision<T>(revision: string, use: (folder: string, commit: string) => Promise<T>): Promise<T> {
  const commit = git("rev-parse", "--verify", "--quiet", "--short", `${revision}^{commit}`);
  if (commit === "") return refuse(`--base ${revision}: no such revision; must be a commit, tag or branch`);
  const folder = `${root}build/base/${commit}-${process.pid}/`;
  const tidy = () => {
    git("worktree", "remove", "--force", folder);
    rmSync(folder, { recursive: true, force: true });
    git("worktree", "prune");
  };
  for (const [signal, code] of [["SIGINT", 130] as const, ["SIGTERM", 143] as const])
    process.once(signal, () => {
      tidy();
      process.exit(code);
    });
  try {
    await checkOut(commit, folder);
    return await use(folder, commit);
  } finally {
    tidy();
  }
}

async function runComparison(bench: Bench, pairs: number, folder: string, commit: string): Promise<number> {
  const mine = `${root}build/base/tree-${process.pid}/`;
  const ofBase = () => costsOf(bench, folder, `${folder}bench/results/`);
  const runs = { base: ofBase, again: ofBase, tree: () => costsOf(bench, root, mine) };
  try {
    const { base, again, tree } = await inTurns(bench.name, pairs, runs);
    return show(
      bench.name,
      commit,
      base.map((each, round) => ({ base: each, again: again[round]!, tree: tree[round]! })),
    );
  } finally {
    rmSync(mine, { recursive: true, force: true });
  }
}

/** Creates a worktree of the commit, installs its packages and builds it. */
async function checkOut(commit: string, folder: string): Promise<void> {
  progress(`base: checking out and building ${commit}`);
  mkdirSync(`${root}build/base`, { recursive: true });
  await run(["git", "worktree", "add", "--detach", "--force", folder, commit], root);
  const lock = (tree: string) => readFileSync(`${tree}bun.lock`, "utf8");
  if (lock(folder) === lock(root)) symlinkSync(`${root}node_modules`, `${folder}node_modules`);
  else await run([process.execPath, "install", "--frozen-lockfile"], folder);
  await run([process.execPath, "scripts/build.ts"], folder);
}

/** Runs a tree's bench, which writes its line to the folder `results`, and returns the costs in the line. */
async function costsOf({ name, script, flags = [], costs }: Bench, tree: string, results: string): Promise<Costs> {
  const file = `${results}${name}.jsonl`;
  const before = lastLine(file);
  const elsewhere = tree === root ? [RESULTS, results] : [];
  await run([process.execPath, script, ...passedOn(process.argv.slice(2)), ...flags, ...elsewhere], tree);
  const line = lastLine(file);
  if (line === undefined || line === before) throw new Error(`${script} of ${tree} wrote no result`);
  const read = JSON.parse(line);
  if (typeof costs === "function") return costs(read as never);
  const valueAt = (path: string) => path.split(".").reduce((value, key) => value?.[key], read);
  return Object.fromEntries(Object.entries(costs).map(([name, path]) => [name, valueAt(path)]));
}

/** Runs a command. If it fails, throws an error with its output, because an earlier revision may not know a flag. */
async function run(words: readonly string[], cwd: string): Promise<void> {
  const child = Bun.spawn([...words], { cwd, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [out, complaint, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (code !== 0) throw new Error(`${words.join(" ")} in ${cwd}: exited with code ${code}:\n${out}${complaint}`);
}

function show(name: string, commit: string, rounds: readonly Round[]): number {
  const metrics = compareRounds(rounds);
  if (metrics.length === 0) {
    console.log(`\n${name}: no round has valid results; runs on a busy machine are void`);
    return 1;
  }
  table(`${name}: this tree against ${commit}, ${rounds.length} rounds; less is better`, [
    ["", "base ÷ base", "largest difference", "tree ÷ base", "verdict"],
    ...metrics.map((metric) => [metric.name, ...ratios(metric), metric.verdict]),
  ]);
  save(name, { base: commit, rounds, metrics });
  return 0;
}

const ratios = ({ baseToBase, apart, treeToBase }: MetricComparison) =>
  [baseToBase, apart, treeToBase].map((ratio) => (Number.isFinite(ratio) ? ratio.toFixed(3) : "-"));

function refuse(why: string): never {
  console.error(why);
  process.exit(2);
}
