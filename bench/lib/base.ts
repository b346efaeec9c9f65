/**
 * Compares this tree with an earlier revision, for a bench with `--base REV --pairs N`. Each of the N rounds runs the bench of
 * REV twice, in a worktree of REV, and the bench of this tree once. All other words of the command line go to each run.
 */
import { mkdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import {
  type Costs,
  compareRounds,
  type MetricComparison,
  orderOf,
  passedOn,
  type Round,
  type Run,
} from "./compared.ts";
import { lastLine } from "./kept-lines.ts";
import { has, number, text } from "./options.ts";
import { progress, table } from "./report.ts";
import { git, RESULTS, root, save } from "./results.ts";

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
  /** Reads the costs from a line of results. The line may come from an earlier revision. */
  costs(line: never): Costs;
}

/** Runs the comparison and ends the process if the command line has `--base`. Returns at once otherwise. */
export async function compareWithBase(bench: Bench): Promise<void> {
  if (!has("--base")) return;
  process.exit(await runComparison(bench));
}

/** Calls `use` with the folder of a built worktree of the revision, and removes the worktree afterwards. */
export async function atRevision<T>(revision: string, use: (folder: string, commit: string) => Promise<T>): Promise<T> {
  const commit = commitOf(revision);
  if (commit === "") throw new Error(noSuch(revision));
  const { folder, tidy } = await worktree(commit);
  try {
    return await use(folder, commit);
  } finally {
    tidy();
  }
}

const commitOf = (revision: string) => git("rev-parse", "--verify", "--quiet", "--short", `${revision}^{commit}`);
const noSuch = (revision: string) => `--base ${revision}: no such revision; must be a commit, tag or branch`;

/** Checks a commit out and builds it. `tidy` removes it; signals that end the bench do, too. */
async function worktree(commit: string): Promise<{ readonly folder: string; tidy(): void }> {
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
  } catch (error) {
    tidy();
    throw error;
  }
  return { folder, tidy };
}

async function runComparison(bench: Bench): Promise<number> {
  const revision = text("--base", "");
  const pairs = number("--pairs", PAIRS);
  const commit = commitOf(revision);
  if (commit === "") return refuse(noSuch(revision));
  if (!Number.isInteger(pairs) || pairs < 1) return refuse(`--pairs ${pairs}: must be a whole number of at least 1`);
  if (has("--server")) return refuse("--server: not with --base, which runs the server of each tree");
  const mine = `${root}build/base/tree-${process.pid}/`;
  let done = () => {};
  try {
    const { folder, tidy } = await worktree(commit);
    done = tidy;
    const trees = { base: folder, again: folder, tree: root };
    const rounds: Round[] = [];
    while (rounds.length < pairs) {
      const round: Partial<Record<Run, Costs>> = {};
      for (const run of orderOf(rounds.length)) {
        progress(`${bench.name}: round ${rounds.length + 1} of ${pairs}, ${run === "tree" ? "this tree" : commit}`);
        round[run] = await costsOf(bench, trees[run], run === "tree" ? mine : `${folder}bench/results/`);
      }
      rounds.push(round as Round);
    }
    return show(bench.name, commit, rounds);
  } catch (error) {
    console.error(`\n${error instanceof Error ? error.message : error}`);
    return 1;
  } finally {
    done();
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
  return costs(JSON.parse(line) as never);
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

function refuse(why: string): number {
  console.error(why);
  return 2;
}
