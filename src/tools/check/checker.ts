/**
 * Judges the laws over successive scrapes. Keeps the last scrape only, so that a watch of any length takes the same memory.
 * No clock, no I/O: runs anywhere.
 */

import { knownBugOf, whyNotHeld } from "./laws/holds.ts";
import { laws as allLaws } from "./laws/index.ts";
import { isRestart, movedCounters, stoodStill } from "./laws/restart.ts";
import { checkedOptions, checkedScrapes } from "./options.ts";
import { Case, type Parameters, type ParsedScrape, type ScrapeConditions } from "./pages/case.ts";
import { type CheckedDialect, groupKey, groupsOf } from "./pages/dialects.ts";
import type { ScrapedLabels } from "./pages/exposition.ts";
import {
  type Broken,
  type DialectName,
  type Law,
  type LawOutcome,
  NotCheckable,
  type Severity,
  type Term,
} from "./pages/law.ts";
import { type NamedPage, type NamingOptions, namedPage } from "./pages/naming.ts";
import { parse } from "./pages/parse.ts";
import { type ToldVersion, versionOf } from "./pages/versions.ts";
import type {
  CheckOptions,
  ExcerptSeen,
  LawResult,
  Note,
  Report,
  Scrape,
  UnreadableScrape,
  Verdict,
  Violation,
} from "./verdicts.ts";

/** Violations kept of each law. */
const VIOLATIONS_KEPT = 5;
const UNREADABLE_KEPT = 20;
const EXCERPTS_KEPT = 20;
const GAPS_KEPT = 50;
/** Gauges of what is under way may be so late (TensorRT-LLM's): nearer scrapes prove no rest. */
const LATE_S = 0.1;

const ONE_SIDED = "one-sided: the whole law needs a clean server at rest";
/** A step's worth of tokens where several processes answer and nobody says max_num_seqs. */
const DEFAULT_STEP_TOKENS = 1024;

interface State {
  readonly law: Law;
  /** True for a law of the caller's, which sees the names of the page. */
  readonly isOwn: boolean;
  looks: number;
  violationCount: number;
  readonly violations: Violation[];
  readonly notes: Note[];
  reason: string;
  /** Where it could not be looked at, to be said though it held elsewhere; "": nowhere. */
  elsewhere: string;
  /** Looked at in its whole form, where it has a one-sided one. */
  whole: boolean;
  readonly memory: Map<string, Map<string, unknown>>;
}

/** Laws of a dialect apply where the scrape speaks it; those of Triton's memory once per page. */
export class Checker {
  readonly #states: State[];
  readonly #parameters: Parameters;
  readonly #clean: boolean;
  readonly #said: readonly string[];
  readonly #naming: NamingOptions;
  readonly #namesMissing: Set<string>;
  #hasSeries = false;
  readonly #dialects = new Set<DialectName>();
  readonly #versions = new Map<DialectName, ToldVersion>();
  readonly #excerpts: ExcerptSeen[] = [];
  readonly #unreadable: UnreadableScrape[] = [];
  #last: ParsedScrape | null = null;
  #lastAtRest = false;
  #scrapes = 0;
  #restarts = 0;
  #leftOut = 0;

  /** Throws a TypeError for an option that there is not, and for an id that no law has. */
  constructor(options: CheckOptions = {}) {
    const { only, laws = [] } = options;
    const known = [...allLaws, ...laws];
    checkedOptions(options, known);
    this.#states = known
      .filter(({ id }) => only === undefined || only.includes(id))
      .map((law) => ({
        law,
        isOwn: !allLaws.includes(law),
        looks: 0,
        violationCount: 0,
        violations: [],
        notes: [],
        reason: "",
        elsewhere: "",
        whole: false,
        memory: new Map(),
      }));
    this.#parameters = options.parameters ?? {};
    this.#clean = options.clean ?? false;
    this.#said = options.engineVersions ?? [];
    this.#naming = { names: options.names, restGauges: options.restGauges };
    this.#namesMissing = new Set([...Object.keys(options.names?.families ?? {}), ...(options.restGauges ?? [])]);
  }

  /** Judges the next scrape. Returns false if it is no exposition. `isTimed`: `atS` tells more than the order. */
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
    for (const name of page.found) this.#namesMissing.delete(name);
    this.#hasSeries ||= [...exposition.byName.keys()].some((name) =>
      spoken.some(({ prefix }) => name.startsWith(prefix)),
    );
    this.#scrapes++;
    const { truth = null, tritonStats = null, rest = false } = scrape;
    const groups = new Map(spoken.map((dialect) => [dialect.name, groupsOf(exposition, dialect)]));
    const versions = new Map<DialectName, ToldVersion>();
    for (const dialect of spoken) {
      const version = versionOf(exposition, dialect, this.#said, page.mapped?.name === dialect.name);
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

  /** A scrape that did not come, or is none. */
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
      // A reset by halves shows only against the process before.
      const compared = restarted && state.law.id !== "G11" ? null : before;
      for (const group of of) this.#judge(state, dialect, group, look, compared, known, whyAlone);
    }
  }

  #judge(
    state: State,
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
      state.reason = look.page.shown(failure.message);
      if (failure.isTold) state.elsewhere = state.reason;
      return;
    }
    state.looks++;
    if (known.clean && (known.rest || !state.law.needs.includes("rest"))) state.whole = true;
    const thread = knownBugOf(state.law, version);
    for (const broken of outcomes) {
      if (broken === null) continue;
      const shown = thread === null ? broken : { ...broken, known: thread };
      this.#record(state, shown, look, before, dialect?.collected === true);
    }
  }

  #record(state: State, broken: Broken, look: ParsedScrape, before: ParsedScrape | null, isCollected: boolean): void {
    const { left, relation, right, known, looksLike } = broken;
    const severity = this.#severity(state.law, broken, isCollected);
    if (severity === null) return;
    const { source, atS } = look;
    const beforeS = before !== null && state.law.needs.includes("two scrapes") ? before.atS : null;
    const { id: law } = state.law;
    const hint = looksLike === undefined ? {} : { looksLike };
    const shown = ({ text, value }: Term): Term => ({ text: look.page.shown(text), value });
    const sides = { left: shown(left), relation, right: shown(right) };
    const violation: Violation = { law, severity, ...sides, source, atS, beforeS, ...hint };
    if (known !== undefined) {
      if (state.notes.length < VIOLATIONS_KEPT) state.notes.push({ ...violation, known });
      return;
    }
    state.violationCount++;
    if (state.violations.length < VIOLATIONS_KEPT) state.violations.push(violation);
  }

  /** With several API servers, or a collector, a page is not one instant: families may be a step apart. Null: within that. */
  #severity(law: Law, { severity, left, right }: Broken, isCollected: boolean): Severity | null {
    const own = severity ?? law.severity;
    const isOneInstant = (this.#parameters.apiServerCount ?? 1) < 2 && !isCollected;
    if (isOneInstant || law.of !== "vllm") return own;
    const step = this.#parameters.maxNumSeqs ?? DEFAULT_STEP_TOKENS;
    if (Math.abs(left.value - right.value) <= step) return null;
    return own === "E" ? "W" : own;
  }

  /** Why only general laws could be judged; null if another one could be, or if the caller asked for general laws only. */
  #generalOnly(): string | null {
    const special = this.#states.filter(({ law, isOwn }) => isOwn || law.of !== "any");
    if (this.#scrapes === 0 || special.some(({ looks }) => looks > 0)) return null;
    const names = [...this.#dialects];
    if (names.length === 0) return "the dialect of the page is not known";
    if (!allLaws.some(({ of }) => names.some((name) => name === of))) return `${names.join(", ")}: no laws of its own`;
    if (!this.#hasSeries) return `${names.join(", ")}: families are declared, and have no series`;
    return special.length === 0 ? null : `${names.join(", ")}: none of its laws could be looked at (--all says why)`;
  }

  /** What the laws say of the scrapes so far. */
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

function resultOf(state: State, spoken: ReadonlySet<DialectName>): LawResult {
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

/** True if all gauges of what is under way are 0 in both scrapes, and no counter moved in between. */
function provenRest(now: NamedPage, before: NamedPage): boolean {
  return allIdle(now) && allIdle(before) && stoodStill(now.exposition, before.exposition);
}

/** A law of the caller's looks for the names of the page. */
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

/** All laws over successive scrapes of one server. Throws a TypeError for what is no list of scrapes, as `Checker` does, and for a scrape's field that there is not. */
export function checkScrapes(scrapes: readonly (Scrape | string | Uint8Array)[], options: CheckOptions = {}): Report {
  const checker = new Checker(options);
  for (const scrape of checkedScrapes(scrapes)) checker.add(scrape);
  return checker.report();
}
