/** What is a law, what can become of it, and how does it compare two sides? */
import type { Case } from "./case.ts";

/** Servers whose metrics are known. */
export type DialectName =
  | "vllm"
  | "triton"
  | "trtllm"
  | "trtllm-serve"
  | "dynamo-frontend"
  | "dynamo-worker"
  | "dcgm"
  | "understudy"
  | "sglang"
  | "vllm-router";

/** E: a broken truth. W: suspicious, may be legal. I: for information. */
export type Severity = "E" | "W" | "I";

/** What it takes to look: texts of the documentation and of the reports. */
export type Need = "one scrape" | "two scrapes" | "rest" | "clean" | "window" | "truth" | "stats" | `--${string}`;

/** What must hold of a server's metrics. */
export interface Law {
  /** As `V05`. */
  readonly id: string;
  /** Where it applies; "any" to every exposition, "cross" where several dialects show one engine. */
  readonly of: DialectName | "any" | "cross";
  /** Once per engine or model, or once per scrape. */
  readonly scope: "group" | "page";
  /** What it says. */
  readonly sentence: string;
  /** What it takes to look at it. */
  readonly needs: readonly Need[];
  /** How grave a violation is. */
  readonly severity: Severity;
  /** How exactly it holds, in words. */
  readonly tolerance: string;
  /** What a violation means, in a plain sentence. */
  readonly means: string;
  /** Known bugs that look like that. */
  readonly looksLike: string;
  /** Looks: null where it holds. What it calls for and is not there makes it not checkable. */
  readonly check: (c: Case) => LawOutcome | readonly LawOutcome[];
}

/** One side of a comparison: its value and where it comes from. */
export interface Term {
  /** The number. */
  readonly value: number;
  /** How it reads in a report. */
  readonly text: string;
}

/** Null: it holds. */
export type LawOutcome = Broken | null;

/** What does not hold. */
export interface Broken {
  /** What was found. */
  readonly left: Term;
  /** Empty: `left.text` is a whole sentence, and there is no other side. */
  readonly relation: string;
  /** What it was compared with. */
  readonly right: Term;
  /** In place of the law's own. */
  readonly severity?: Severity;
  /** A real engine of today does this: a note with its thread, no violation. */
  readonly known?: string;
  /** In place of the law's own. */
  readonly looksLike?: string;
}

/** Thrown inside a law: it cannot be looked at here. "told": that is said also where the law was looked at elsewhere, and held. */
export class NotCheckable extends Error {
  readonly isTold: boolean;

  constructor(why: string, told?: "told") {
    super(why);
    this.isTold = told !== undefined;
  }
}

/** Sums of `count` floats: observability.md's "≈f". */
export function floatTolerance(left: number, right: number, count: number): number {
  return 1e-9 * Math.max(Math.abs(left), Math.abs(right)) * Math.max(1, count) + 1e-6;
}

/** Two clocks: 1 ms per observation. */
export const clockTolerance = (count: number): number => 1e-3 * count + 1e-6;

/** Both sides are the same, give or take `tolerance`. */
export function equal(left: Term, right: Term, tolerance = 0): LawOutcome {
  return Math.abs(left.value - right.value) <= tolerance ? null : { left, relation: "=", right };
}

/** The left side is the right one at most, give or take `tolerance`. */
export function atMost(left: Term, right: Term, tolerance = 0): LawOutcome {
  return left.value <= right.value + tolerance ? null : { left, relation: "≤", right };
}

/** The left side is the right one at least, give or take `tolerance`. */
export function atLeast(left: Term, right: Term, tolerance = 0): LawOutcome {
  return left.value >= right.value - tolerance ? null : { left, relation: "≥", right };
}

/** A side of a comparison that was computed: how it reads, and its value. */
export function term(text: string, value: number): Term {
  return { text, value };
}

/** What is not a comparison of two numbers, as one sentence. */
export function complaint(sentence: string, value: number): Broken {
  return { left: term(sentence, value), relation: "", right: term("", 0) };
}

export function plus(...terms: readonly Term[]): Term {
  return { value: terms.reduce((sum, { value }) => sum + value, 0), text: terms.map(({ text }) => text).join(" + ") };
}

export function minus(left: Term, right: Term): Term {
  return { value: left.value - right.value, text: `${left.text} − ${right.text}` };
}

export function times(factor: number, of: Term): Term {
  return { value: factor * of.value, text: `${factor} · ${of.text}` };
}

/** What a table says of each law; the rest where it is not the common. */
export type LawRow = Pick<Law, "sentence" | "means" | "check"> &
  Partial<Pick<Law, "needs" | "severity" | "tolerance" | "looksLike">>;

/** A table's rows with what most of them share: one scrape, exact, severity E. */
export function lawsOf(of: Law["of"], scope: Law["scope"]) {
  return (id: string, row: LawRow): Law => ({
    ...{ id, of, scope, needs: ["one scrape"], severity: "E", tolerance: "exact", looksLike: "" },
    ...row,
  });
}

/** A law of one's own: a sentence, what a violation means, and a check that gives what `equal` and the like give. */
export interface OwnLaw extends LawRow {
  /** Must be its own: ours are a letter and two digits. */
  readonly id: string;
}

/**
 * Makes a law for `checkScrapes(scrapes, { laws: [law(…)] })`. It is looked at once per scrape, whatever the page speaks;
 * `check` gets the numbers: `c.now.get("requests_total")` is their sum over all series of that name, `c.before` the scrape
 * before, `c.delta(name)` what a counter has moved. What is not there makes the law not checkable, and no violation.
 */
export function law({ id, ...row }: OwnLaw): Law {
  return lawsOf("any", "page")(id, row);
}
