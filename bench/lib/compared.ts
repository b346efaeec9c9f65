/**
 * Decides whether costs differ between two revisions by more than between two runs of one revision. Each round has a run of the
 * base, another run of the base, and a run of the tree.
 */
import { median } from "./numbers.ts";

/** The results of a run, by name. All are positive, and less is better. */
export type Costs<Value = number> = Readonly<Record<string, Value>>;

export const RUNS = ["base", "again", "tree"] as const;
export type Run = (typeof RUNS)[number];
export type Round = Readonly<Record<Run, Costs>>;

/** Smallest number of rounds for a verdict. */
const ROUNDS = 3;

export type Verdict = "as before" | "better" | "worse" | "too few rounds" | "not measured";

export interface MetricComparison {
  readonly name: string;
  /** Number of rounds in which all three runs have a result. */
  readonly rounds: number;
  /** The second run of the base divided by the first, median of the rounds. */
  readonly baseToBase: number;
  /** The largest factor between the two runs of the base in any round, at least 1. */
  readonly apart: number;
  /** The tree divided by the geometric mean of the base's two runs, median of the rounds. */
  readonly treeToBase: number;
  readonly verdict: Verdict;
}

/** Returns the words of the command line for each run, without the options of the comparison. */
export function passedOn(words: readonly string[]): string[] {
  const isOwn = (word: string | undefined) => word === "--base" || word === "--pairs";
  return words.filter((word, at) => !isOwn(word) && !isOwn(words[at - 1]) && word !== "--no-save");
}

const isMeasured = (value: number | undefined): value is number =>
  value !== undefined && Number.isFinite(value) && value > 0;

export function compareRounds(rounds: readonly Round[]): MetricComparison[] {
  const names = new Set(rounds.flatMap((round) => RUNS.flatMap((run) => Object.keys(round[run]))));
  return [...names].map((name) => {
    const whole = rounds.filter((round) => RUNS.every((run) => isMeasured(round[run][name])));
    const bases = whole.map(({ base, again }) => again[name]! / base[name]!);
    const trees = whole.map(({ base, again, tree }) => tree[name]! / Math.sqrt(base[name]! * again[name]!));
    const apart = Math.max(1, ...bases.map((ratio) => Math.max(ratio, 1 / ratio)));
    const treeToBase = median(trees);
    const verdict = verdictOf(whole.length, treeToBase, apart);
    return { name, rounds: whole.length, baseToBase: median(bases), apart, treeToBase, verdict };
  });
}

/** Returns a verdict. A difference counts if it is larger than the largest difference between two runs of the base. */
function verdictOf(rounds: number, treeToBase: number, apart: number): Verdict {
  if (rounds < ROUNDS) return rounds === 0 ? "not measured" : "too few rounds";
  if (treeToBase > apart) return "worse";
  return treeToBase < 1 / apart ? "better" : "as before";
}
