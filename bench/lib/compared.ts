/**
 * Did a revision's figures change by more than they differ from themselves? Pure arithmetic on rounds, each of them one run
 * of the base, the base again and the tree.
 */
import { median } from "./numbers.ts";

/** What a run measured, by name. All are costs, positive: less is better. */
export type Costs = Readonly<Record<string, number>>;

export const RUNS = ["base", "again", "tree"] as const;
export type Run = (typeof RUNS)[number];
export type Round = Readonly<Record<Run, Costs>>;

/** Two numbers differ by some chance or other: fewer rounds have nothing to say. */
const ROUNDS = 3;

export type Verdict = "as before" | "better" | "worse" | "too few rounds" | "not measured";

export interface Compared {
  readonly name: string;
  /** Rounds in which all three runs have the figure. */
  readonly rounds: number;
  /** The second run of the base against the first: the median of the rounds. */
  readonly baseToBase: number;
  /** The largest factor between the two runs of the base in any round, at least 1. */
  readonly apart: number;
  /** The tree against the geometric mean of the base's two runs: the median of the rounds. */
  readonly treeToBase: number;
  readonly verdict: Verdict;
}

/** Which run comes first, second and third: each stands in each place, so that what a run leaves behind falls on all. */
export function orderOf(round: number): Run[] {
  const first = round % RUNS.length;
  return [...RUNS.slice(first), ...RUNS.slice(0, first)];
}

/** The words of a command line that each run gets: without those of the comparison itself. */
export function passedOn(words: readonly string[]): string[] {
  const isOwn = (word: string | undefined) => word === "--base" || word === "--pairs";
  return words.filter((word, at) => !isOwn(word) && !isOwn(words[at - 1]) && word !== "--no-save");
}

const isMeasured = (value: number | undefined): value is number =>
  value !== undefined && Number.isFinite(value) && value > 0;

export function compareRounds(rounds: readonly Round[]): Compared[] {
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

/** A difference counts when it is more than that of the base with itself. */
function verdictOf(rounds: number, treeToBase: number, apart: number): Verdict {
  if (rounds < ROUNDS) return rounds === 0 ? "not measured" : "too few rounds";
  if (treeToBase > apart) return "worse";
  return treeToBase < 1 / apart ? "better" : "as before";
}
