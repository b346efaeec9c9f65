/**
 * Judges laws over successive scrapes of one server. Keeps only the last scrape, so memory does not grow with the number of
 * scrapes. Uses no clock and no I/O, so it also runs in a browser.
 */

import { knownBugOf, whyNotHeld } from "./laws/holds.ts";
import { laws as allLaws } from "./laws/index.ts";
import { isRestart, movedCounters, stoodStill } from "./laws/restart.ts";
import { checkedOptions, checkedScrapes } from "./options.ts";
import { Case, type Parameters, type ParsedScrape, type ScrapeConditions } from "./pages/case.ts";
import { type CheckedDialect, groupKey, groupsOf } from "./pages/dialects.ts";
import type { ScrapedLabels } from "./pages/exposition.ts";
import {
  type DialectName,
  type Law,
  type LawOutcome,
  type Mismatch,
  NotCheckable,
  type Severity,
  type Term,
} from "./pages/law.ts";
import { type NamedPage, type NamingOptions, namedPage } from "./pages/naming.ts";
import { parse } from "./pages/parse.ts";
import { type PageVersion, versionOf } from "./pages/versions.ts";
import type {
  CheckOptions,
  LawResult,
  Note,
  Report,
  Scrape,
  ScrapeExcerpt,
  UnreadableScrape,
  Verdict,
  Violation,
} from "./verdicts.ts";

/** Maximum number of violations kept per law. More are only counted. */
const VIOLATIONS_KEPT = 5;
const UNREADABLE_KEPT = 20;
const EXCERPTS_KEPT = 20;
const GAPS_KEPT = 50;
/**
 * Seconds by which gauges of running work may lag (TensorRT-LLM updates them every 0.1 s). Two scrapes that are closer
 * together cannot show that the server is at rest.
 */
const LATE_S = 0.1;

const ONE_SIDED = "one-sided: the whole law needs a clean server at rest";
/** Maximum number of tokens of one step, assumed if several processes serve the page and the caller did not set max_num_seqs. */
const DEFAULT_STEP_TOKENS = 1024;

/** Returns what is known of a law before the first scrape. */
const stateOf = (law: Law) => ({
  law,
  /** True for a law that the caller supplied. It sees the names as the page wrote them. */
  isOwn: !allLaws.includes(law),
  looks: 0,
  violationCount: 0,
  violations: [] as Violation[],
  notes: [] as Note[],
  reason: "",
  /** Why the law could not be judged for some groups. Reported even if it held for others. "" if there is no such reason. */
  elsewhere: "",
  /** True if the exact form of the law was judged, not only its one-sided form. */
  whole: false,
  memory: new Map<string, Map<string, unknown>>(),
});
type LawState = ReturnType<typeof stateOf>;

/** Checks successive scrapes against the laws. A dialect's laws apply only to pages that contain that dialect. */
export class Checker {
  readonly #states: LawState[];
  readonly #parameters: Parameters;
  readonly #clean: boolean;
  readonly #callerVersions: readonly string[];
  readonly #naming: NamingOptions;
  readonly #namesMissing: Set<string>;
  #hasSeries = false;
  readonly #dialects = new Set<DialectName>();
  readonly #versions = new Map<DialectName, PageVersion>();
  readonly #excerpts: ScrapeExcerpt[] = [];
  readonly #unreadable: UnreadableScrape[] = [];
  #last: ParsedScrape | null = null;
  #lastAtRest = false;
  #scrapes = 0;
  #restarts = 0;
  #leftOut = 0;

  /** Throws a TypeError for an unknown option or an unknown law id. */
  constructor(options: CheckOptions = {}) {
    const { only, laws = [] } = options;
    const known = [...allLaws, ...laws];
    checkedOptions(options, known);
    this.#states = known.filter(({ id }) => only === undefined || only.includes(id)).map(stateOf);
    this.#parameters = options.parameters ?? {};
    this.#clean = options.clean ?? false;
    this.#callerVersions = options.engineVersions ?? [];
    this.#naming = { names: options.names, restGauges: options.restGauges };
    this.#namesMissing = new Set([...Object.keys(options.names?.families ?? {}), ...(options.restGauges ?? [])]);
  }

  /**
   * Judges the next scrape. Returns false if the text is not a metrics page. `isTimed`: true if `atS` is a real time, false if
   * it only gives the order.
   */
  add(scrape: Scrape, isTimed = scrape.atS !== undefined): boolean {
    const atS = scrape.atS ?? (this.#last === null ? 0 : this.#last.atS + 1);
    const source = scrape.source ?? `scrape ${this.#scrapes + 1}`;
    const written = parse(scrape.text, scrape);
    if ("unreadable" in written) {
      this.unreadable(source, atS, written.unreadable);
      return false;
    }
    const page = namedPage(written, this.#naming);
    const { exposition, dialects: spoken } = page;
    for (const name of page.usedNames) this.#namesMissing.delete(name);
    this.#hasSeries ||= [...exposition.byName.keys()].some((name) =>
      spoken.some(({ prefix }) => name.startsWith(prefix)),
    );
    this.#scrapes++;
    const { truth = null, tritonStats = null, rest = false } = scrape;
    const groups = new Map(spoken.map((dialect) => [dialect.name, groupsOf(exposition, dialect)]));
    const versions = new Map<DialectName, PageVersion>();
    for (const dialect of spoken) {
      const version = versionOf(exposition, dialect, this.#callerVersions, page.mapped?.name === dialect.name);
      if (version !== null) versions.set(dialect.name, version);
    }
    const { excerpt } = exposition;
    if (excerpt !== null && this.#excerpts.length < EXCERPTS_KEPT)
      this.#excerpts.push({ source, atS, gaps: excerpt.gaps.slice(0, GAPS_KEPT), cut: excerpt.cut });
    const look: ParsedScrape = { exposition, page, groups, atS, isTimed, source, truth, tritonStats, versions };
    this.#look(look, spoken, rest);
    this.#last = look;
    return true;
  }

  /** Records a scrape that failed, or whose body is not a metrics page. */
  unreadable(source: string, atS: number, why: string): void {
    if (this.#unreadable.length < UNREADABLE_KEPT) this.#unreadable.push({ source, atS, why });
  }

  #look(look: ParsedScrape, spoken: readonly CheckedDialect[], saidRest: boolean): void {
    const { exposition, groups } = look;
    const before = this.#last;
    const restarted = before !== null && isRestart(exposition, before.exposition);
    if (restarted) this.#restarts++;
    const follows = before !== null && !restarted;
    const proven = follows && look.atS - before.atS >= LATE_S && provenRest(look.page, before.page);
    const wasAtRest = follows && (this.#lastAtRest || allIdle(before.page));
    const rest = saidRest || proven;
    const still = rest && wasAtRest && movedCounters(exposition, before.exposition) === 0;
    const known: ScrapeConditions = {
      parameters: this.#parameters,
      rest,
      still,
      clean: this.#clean && this.#restarts === 0,
    };
    this.#lastAtRest = rest;
    for (const { name } of spoken) {
      this.#dialects.add(name);
      const version = look.versions.get(name);
      if (version !== undefined) this.#versions.set(name, version);
      this.#leftOut = Math.max(this.#leftOut, groups.get(name)!.leftOut);
    }
    const whyAlone = restarted ? "the process restarted" : "needs two scrapes";
    for (const state of this.#states) {
      const dialect = spoken.find(({ name }) => name === state.law.of) ?? null;
      if (dialect === null && state.law.of !== "any" && state.law.of !== "cross") continue;
      const perGroup = dialect !== null && state.law.scope === "group";
      const of = perGroup ? [...groups.get(dialect.name)!.all.values()].map(({ labels }) => labels) : [null];
      // Only G11 compares across a restart, because a partial reset shows only against the process before.
      const compared = restarted && state.law.id !== "G11" ? null : before;
      for (const group of of) this.#judge(state, dialect, group, look, compared, known, whyAlone);
    }
  }

  #judge(
    state: LawState,
    dialect: CheckedDialect | null,
    group: ScrapedLabels | null,
    look: ParsedScrape,
    before: ParsedScrape | null,
    known: ScrapeConditions,
    whyAlone: string,
  ): void {
    const key = group === null ? "" : groupKey(group);
    let memory = state.memory.get(key);
    if (memory === undefined) {
      memory = new Map();
      state.memory.set(key, memory);
    }
    const version = (dialect && look.versions.get(dialect.name)) ?? null;
    const notHeld = whyNotHeld(state.law, version);
    if (notHeld !== null) {
      state.reason = notHeld;
      return;
    }
    const [now, then] = state.isOwn ? [asWritten(look), before && asWritten(before)] : [look, before];
    const c = new Case(now, then, dialect, group, known, memory, whyAlone);
    let outcomes: readonly LawOutcome[];
    try {
      const outcome = state.law.check(c);
      outcomes = Array.isArray(outcome) ? (outcome as readonly LawOutcome[]) : [outcome as LawOutcome];
    } catch (failure) {
      if (!(failure instanceof NotCheckable)) throw failure;
      state.reason = look.page.toPageNames(failure.message);
      if (failure.isAlwaysReported) state.elsewhere = state.reason;
      return;
    }
    state.looks++;
    if (known.clean && (known.rest || !state.law.needs.includes("rest"))) state.whole = true;
    const thread = knownBugOf(state.law, version);
    for (const broken of outcomes) {
      if (broken === null) continue;
      const violation = thread === null ? broken : { ...broken, known: thread };
      this.#record(state, violation, look, before, dialect?.collected === true);
    }
  }

  #record(
    state: LawState,
    broken: Mismatch,
    look: ParsedScrape,
    before: ParsedScrape | null,
    isCollected: boolean,
  ): void {
    const { left, relation, right, known, looksLike } = broken;
    const severity = this.#severity(state.law, broken, isCollected);
    if (severity === null) return;
    const { source, atS } = look;
    const beforeS = before !== null && state.law.needs.includes("two scrapes") ? before.atS : null;
    const { id: law } = state.law;
    const hint = looksLike === undefined ? {} : { looksLike };
    const withPageNames = ({ text, value }: Term): Term => ({ text: look.page.toPageNames(text), value });
    const sides = { left: withPageNames(left), relation, right: withPageNames(right) };
    const violation: Violation = { law, severity, ...sides, source, atS, beforeS, ...hint };
    if (known !== undefined) {
      if (state.notes.length < VIOLATIONS_KEPT) state.notes.push({ ...violation, known });
      return;
    }
    state.violationCount++;
    if (state.violations.length < VIOLATIONS_KEPT) state.violations.push(violation);
  }

  /**
   * Returns the severity to report, or null if the difference fits within one step. A page of several API servers, or of a
   * collector, mixes families from different moments, up to one step apart.
   */
  #severity(law: Law, { severity, left, right }: Mismatch, isCollected: boolean): Severity | null {
    const base = severity ?? law.severity;
    const isOneInstant = (this.#parameters.apiServerCount ?? 1) < 2 && !isCollected;
    if (isOneInstant || law.of !== "vllm") return base;
    const step = this.#parameters.maxNumSeqs ?? DEFAULT_STEP_TOKENS;
    if (Math.abs(left.value - right.value) <= step) return null;
    return base === "E" ? "W" : base;
  }

  /**
   * Returns why only general laws could be judged. Null if another law could be judged, or if the caller asked only for
   * general laws.
   */
  #generalOnly(): string | null {
    const special = this.#states.filter(({ law, isOwn }) => isOwn || law.of !== "any");
    if (this.#scrapes === 0 || special.some(({ looks }) => looks > 0)) return null;
    const names = [...this.#dialects];
    if (names.length === 0) return "the dialect of the page is not known";
    if (!allLaws.some(({ of }) => names.some((name) => name === of))) return `${names.join(", ")}: no laws of its own`;
    if (!this.#hasSeries) return `${names.join(", ")}: families are declared, and have no series`;
    return special.length === 0 ? null : `${names.join(", ")}: none of its laws could be judged (--all says why)`;
  }

  /** Returns the verdict of each law on the scrapes so far. */
  report(): Report {
    const laws = this.#states.map((state) => resultOf(state, this.#dialects));
    const violated = laws.filter(({ verdict }) => verdict === "violated");
    return {
      dialects: [...this.#dialects],
      versions: [...this.#versions.values()],
      excerpts: this.#excerpts,
      scrapes: this.#scrapes,
      restarts: this.#restarts,
      leftOut: this.#leftOut,
      unreadable: this.#unreadable,
      applicable: laws.filter(({ verdict }) => verdict !== "not checkable").length,
      generalOnly: this.#generalOnly(),
      namesMissing: [...this.#namesMissing],
      laws,
      violated,
      errors: violated.filter(isError),
      warnings: violated.filter((law) => !isError(law) && law.violations.some(({ severity }) => severity === "W")),
    };
  }
}

const isError = ({ violations }: LawResult): boolean => violations.some(({ severity }) => severity === "E");

function resultOf(state: LawState, spoken: ReadonlySet<DialectName>): LawResult {
  const { law, looks, violationCount, violations, notes } = state;
  const { id, of, sentence, severity, means, looksLike } = law;
  const absent = of !== "any" && of !== "cross" && !spoken.has(of);
  const oneSided = looks > 0 && law.needs.includes("clean") && !state.whole;
  const partly = looks > 0 && state.elsewhere !== "" ? `in part not checkable: ${state.elsewhere}` : "";
  const reason = absent ? `no ${of} metrics here` : oneSided ? ONE_SIDED : partly || state.reason;
  const verdict: Verdict =
    violationCount > 0 ? "violated" : notes.length > 0 ? "note" : looks > 0 ? "held" : "not checkable";
  return { id, of, sentence, severity, verdict, looks, violationCount, violations, notes, reason, means, looksLike };
}

/** True if all gauges of running work are 0 in both scrapes, and no counter changed in between. */
function provenRest(now: NamedPage, before: NamedPage): boolean {
  return allIdle(now) && allIdle(before) && stoodStill(now.exposition, before.exposition);
}

/** The scrape under the names of the page, for laws that the caller supplied. */
const asWritten = (look: ParsedScrape): ParsedScrape => ({ ...look, exposition: look.page.written });

function allIdle({ exposition: { byName }, isUnderWay }: NamedPage): boolean {
  let gauges = 0;
  for (const [name, samples] of byName) {
    for (const { labels, value } of samples) {
      if (!isUnderWay(name, labels)) continue;
      gauges++;
      if (value !== 0) return false;
    }
  }
  return gauges > 0;
}

/**
 * Judges all laws over successive scrapes of one server. Throws a TypeError if `scrapes` is not a list, or if a scrape or the
 * options have an unknown field.
 */
export function checkScrapes(scrapes: readonly (Scrape | string | Uint8Array)[], options: CheckOptions = {}): Report {
  const checker = new Checker(options);
  for (const scrape of checkedScrapes(scrapes)) checker.add(scrape);
  return checker.report();
}
