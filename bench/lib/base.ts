/**
 * Is this tree faster or slower than an earlier revision? `--base REV --pairs N` on the command line of a bench: REV's own
 * bench in a worktree of REV, the same again, and this tree's, in turns, N times. Everything else on the command line goes
 * to each run.
 */
import { mkdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { type Compared, type Costs, compareRounds, orderOf, passedOn, type Round, type Run } from "./compared.ts";
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
  /** From the repository's root; a revision that compares has had it in the same place. */
  readonly script: string;
  /** More flags of each run: what rounds repeat needs no repetition within. */
  readonly flags?: readonly string[];
  /** The costs in a line of results, also of one that an earlier revision wrote. */
  costs(line: never): Costs;
}

/** Compares and ends the process where `--base` was given; returns at once otherwise. */
export async function compareWithBase(bench: Bench): Promise<void> {
  if (!has("--base")) return;
  process.exit(await compared(bench));
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
const noSuch = (revision: string) => `--base ${revision}: no such revision; a commit, tag or branch is taken`;

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

async function compared(bench: Bench): Promise<number> {
  const revision = text("--base", "");
  const pairs = number("--pairs", PAIRS);
  const commit = commitOf(revision);
  if (commit === "") return refuse(noSuch(revision));
  if (!Number.isInteger(pairs) || pairs < 1) return refuse(`--pairs ${pairs}: a whole number of at least 1 is taken`);
  if (has("--server")) return refuse("--server names one server for all: with --base each tree runs its own");
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

/** A worktree of the commit, with what it needs to run, built. */
async function checkOut(commit: string, folder: string): Promise<void> {
  progress(`base: ${commit} is checked out and built`);
  mkdirSync(`${root}build/base`, { recursive: true });
  await run(["git", "worktree", "add", "--detach", "--force", folder, commit], root);
  const lock = (tree: string) => readFileSync(`${tree}bun.lock`, "utf8");
  if (lock(folder) === lock(root)) symlinkSync(`${root}node_modules`, `${folder}node_modules`);
  else await run([process.execPath, "install", "--frozen-lockfile"], folder);
  await run([process.execPath, "scripts/build.ts"], folder);
}

/** One run of a tree's bench, and what its line of results says; results go to `results`. */
async function costsOf({ name, script, flags = [], costs }: Bench, tree: string, results: string): Promise<Costs> {
  const file = `${results}${name}.jsonl`;
  const before = lastLine(file);
  const elsewhere = tree === root ? [RESULTS, results] : [];
  await run([process.execPath, script, ...passedOn(process.argv.slice(2)), ...flags, ...elsewhere], tree);
  const line = lastLine(file);
  if (line === undefined || line === before) throw new Error(`${script} of ${tree} wrote no result`);
  return costs(JSON.parse(line) as never);
}

/** What it prints is shown where it fails; a bench of an earlier revision may not know a flag. */
async function run(words: readonly string[], cwd: string): Promise<void> {
  const child = Bun.spawn([...words], { cwd, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [out, complaint, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (code !== 0) throw new Error(`${words.join(" ")} in ${cwd} ended with ${code}:\n${out}${complaint}`);
}

function show(name: string, commit: string, rounds: readonly Round[]): number {
  const metrics = compareRounds(rounds);
  if (metrics.length === 0) {
    console.log(`\n${name}: no run measured anything; on a busy machine runs are void`);
    return 1;
  }
  table(`${name}: this tree against ${commit}, ${rounds.length} rounds; less is better`, [
    ["", "base to base", "apart at most", "tree to base", "verdict"],
    ...metrics.map((one) => [one.name, ...ratios(one), one.verdict]),
  ]);
  save(name, { base: commit, rounds, metrics });
  return 0;
}

const ratios = ({ baseToBase, apart, treeToBase }: Compared) =>
  [baseToBase, apart, treeToBase].map((ratio) => (Number.isFinite(ratio) ? ratio.toFixed(3) : "-"));

function refuse(why: string): number {
  console.error(why);
  return 2;
}
