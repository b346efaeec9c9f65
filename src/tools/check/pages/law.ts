/** Defines laws and their results, and the comparisons that laws are made of. */
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

/** Severity of a violation. E: an error of the server. W: suspicious, but possibly legal. I: for information. */
export type Severity = "E" | "W" | "I";

/** Conditions for judging a law. The documentation and the reports print these texts. */
export type Need = "one scrape" | "two scrapes" | "rest" | "clean" | "window" | "truth" | "stats" | `--${string}`;

/** A rule that a server's metrics must obey. */
export interface Law {
  /** Id of the law, such as `V05`. */
  readonly id: string;
  /** Dialect to which the law applies. "any": every page. "cross": pages on which several dialects show one engine. */
  readonly of: DialectName | "any" | "cross";
  /** Judged once per engine or model ("group"), or once per scrape ("page"). */
  readonly scope: "group" | "page";
  /** The law in words. */
  readonly sentence: string;
  /** Conditions for judging it. */
  readonly needs: readonly Need[];
  /** Severity of a violation. */
  readonly severity: Severity;
  /** Accepted deviation, in words. */
  readonly tolerance: string;
  /** Meaning of a violation for the server, in one sentence. */
  readonly means: string;
  /** Known bugs that cause such a violation. */
  readonly looksLike: string;
  /** Judges one scrape. Returns null if the law holds. Throws `NotCheckable` if a needed value is missing. */
  readonly check: (c: Case) => LawOutcome | readonly LawOutcome[];
}

/** One side of a comparison. */
export interface Term {
  /** The number that is compared. */
  readonly value: number;
  /** Name of the number in reports. */
  readonly text: string;
}

/** Result of one comparison. Null if it holds. */
export type LawOutcome = Mismatch | null;

/** A comparison that does not hold. */
export interface Mismatch {
  /** Left side. */
  readonly left: Term;
  /** Required relation. Empty if `left.text` is a whole sentence and there is no right side. */
  readonly relation: string;
  /** Right side. */
  readonly right: Term;
  /** Severity of this violation, if it differs from the law's. */
  readonly severity?: Severity;
  /** Public issue that describes the same in a current real server. If set, the violation is only a note. */
  readonly known?: string;
  /** Likely cause, if it differs from the law's `looksLike`. */
  readonly looksLike?: string;
}

/**
 * Thrown inside a law that cannot be judged here. With "always", the report gives the reason even if the law was judged for
 * other groups and held.
 */
export class NotCheckable extends Error {
  readonly isAlwaysReported: boolean;

  constructor(why: string, report?: "always") {
    super(why);
    this.isAlwaysReported = report !== undefined;
  }
}

/** Returns the tolerance for sums of `count` floating-point numbers. */
export function floatTolerance(left: number, right: number, count: number): number {
  return 1e-9 * Math.max(Math.abs(left), Math.abs(right)) * Math.max(1, count) + 1e-6;
}

/** Returns the tolerance in seconds for times of two clocks: 1 ms per observation. */
export const clockTolerance = (count: number): number => 1e-3 * count + 1e-6;

/** Requires that both sides are equal within `tolerance`. */
export function equal(left: Term, right: Term, tolerance = 0): LawOutcome {
  return Math.abs(left.value - right.value) <= tolerance ? null : { left, relation: "=", right };
}

/** Requires that the left side is at most the right one, within `tolerance`. */
export function atMost(left: Term, right: Term, tolerance = 0): LawOutcome {
  return left.value <= right.value + tolerance ? null : { left, relation: "≤", right };
}

/** Requires that the left side is at least the right one, within `tolerance`. */
export function atLeast(left: Term, right: Term, tolerance = 0): LawOutcome {
  return left.value >= right.value - tolerance ? null : { left, relation: "≥", right };
}

/** Requires that the left side is at least the right one, and equal to it at clean rest. */
export function equalAtCleanRest({ cleanRest }: Case, left: Term, right: Term, tolerance = 0): LawOutcome {
  return cleanRest ? equal(left, right, tolerance) : atLeast(left, right, tolerance);
}

/** Makes a side of a comparison from its name in reports and its value. */
export function term(text: string, value: number): Term {
  return { text, value };
}

/** Makes a violation that is one sentence, not a comparison of two numbers. */
export function complaint(sentence: string, value: number): Mismatch {
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

/** A law as the tables define it. Missing fields have the default values of `lawsOf`. */
export type LawRow = Pick<Law, "sentence" | "means" | "check"> &
  Partial<Pick<Law, "needs" | "severity" | "tolerance" | "looksLike">>;

/** Returns a function that makes laws of one dialect. Default: judged from one scrape, exact, severity E. */
export function lawsOf(of: Law["of"], scope: Law["scope"]) {
  return (id: string, row: LawRow): Law => ({
    ...{ id, of, scope, needs: ["one scrape"], severity: "E", tolerance: "exact", looksLike: "" },
    ...row,
  });
}

/**
 * A law that a user of the library defines: its sentence, the meaning of a violation, and a check that returns results of
 * `equal` and similar functions.
 */
export interface OwnLaw extends LawRow {
  /** Id that no other law has. Built-in ids are a letter and two digits. */
  readonly id: string;
}

/**
 * Makes a law for `checkScrapes(scrapes, { laws: [law(…)] })`. It is judged once per scrape of any page. In `check`,
 * `c.now.get("requests_total")` is the sum over all series of that name, `c.before` gives the values of the scrape before, and
 * `c.delta(name)` the growth of a counter. If a value is missing, the law is not checkable, and there is no violation.
 */
export function law({ id, ...row }: OwnLaw): Law {
  return lawsOf("any", "page")(id, row);
}
