/** Holds what a law can look at: one scrape, the one before it, and what is known of the server and its load. */

import { type CheckedDialect, type Groups, groupKey } from "./dialects.ts";
import type { Exposition, ScrapedLabels } from "./exposition.ts";
import { type DialectName, minus, NotCheckable, type Term } from "./law.ts";
import type { NamedPage } from "./naming.ts";
import { type HistogramTerms, Reading, type Where } from "./reading.ts";
import type { ToldVersion, VersionId } from "./versions.ts";

/** Flags of the server that no metric shows, by vLLM's names where it has one. */
export interface Parameters {
  /** Most sequences in one step. */
  readonly maxNumSeqs?: number;
  /** Longest prompt plus answer, in tokens. */
  readonly maxModelLen?: number;
  /** Tokens of a KV block. */
  readonly blockSize?: number;
  /** Blocks of one engine, the null block included. */
  readonly numGpuBlocks?: number;
  /** Prompts that begin alike share blocks. */
  readonly enablePrefixCaching?: boolean;
  /** Draft tokens per step. */
  readonly numSpeculativeTokens?: number;
  /** Different LoRA adapters in one step. */
  readonly maxLoras?: number;
  /** Processes behind one address: a scrape is then not one instant. */
  readonly apiServerCount?: number;
  /** Shortest step. */
  readonly minStepMs?: number;
  /** Triton models that send several responses per request, or all of them. */
  readonly decoupled?: readonly string[] | true;
  /** Triton models that are ensembles; default: the one of that name, and the one around TensorRT-LLM's executor. */
  readonly ensembles?: readonly string[];
  /** No request has a batch of more than one, in Triton. */
  readonly batchOfOne?: boolean;
  /** All dialects of a page show one instant: gauges are compared under load too. */
  readonly oneInstant?: boolean;
  /** TensorRT-LLM's `GUARANTEED_NO_EVICT`. */
  readonly noEvict?: boolean;
}

/** What a driver knows that sent all the requests: totals since the server started. */
export interface Truth {
  /** Accepted by HTTP, whatever became of them. */
  readonly requests?: number;
  /** Answered to the end. */
  readonly finished?: number;
  /** Whose clients left before the end. */
  readonly clientAborts?: number;
  /** Refused at admission. */
  readonly refused?: number;
  /** Over all that were admitted. */
  readonly promptTokens?: number;
  /** Found in the prefix cache among them. */
  readonly cachedTokens?: number;
  /** Output tokens. */
  readonly generationTokens?: number;
  /** Requests that lost their blocks. */
  readonly preemptions?: number;
}

/** One look at the server, parsed. */
export interface ParsedScrape {
  /** The page, with the names of its dialects. */
  readonly exposition: Exposition;
  /** The page under its dialects' names, and the way back to its own. */
  readonly page: NamedPage;
  /** Engines and models of each dialect that it speaks. */
  readonly groups: ReadonlyMap<DialectName, Groups>;
  /** Seconds, from any start. */
  readonly atS: number;
  /** True if `atS` is the time when the scrape was taken; false if it only tells the order. */
  readonly isTimed: boolean;
  /** For the report: a URL or a file. */
  readonly source: string;
  /** What the driver of the load knows; null: nothing was said. */
  readonly truth: Truth | null;
  /** `/v2/models/stats` of Triton, taken with it. */
  readonly tritonStats: unknown;
  /** Versions of the dialects that have several. */
  readonly versions: ReadonlyMap<DialectName, ToldVersion>;
}

/** What is known of the server when a scrape was taken. */
export interface ScrapeConditions {
  /** Flags of the server that the caller told. */
  readonly parameters: Parameters;
  /** Nothing was under way when this scrape was taken. */
  readonly rest: boolean;
  /** Nor was anything at the scrape before, or between the two. */
  readonly still: boolean;
  /** No client left, no request failed, since the server started. */
  readonly clean: boolean;
}

/** What a law's `check` is given. */
export class Case {
  /** Values of this scrape. */
  readonly now: Reading;
  readonly #before: Reading | null;

  constructor(
    /** This scrape. */
    readonly look: ParsedScrape,
    /** The one before, of the same process; null: there is none. */
    readonly lookBefore: ParsedScrape | null,
    dialect: CheckedDialect | null,
    /** Null: the whole page. */
    group: ScrapedLabels | null,
    /** What is known beside the pages. */
    readonly known: ScrapeConditions,
    /** Survives from scrape to scrape, for one law and group. */
    readonly memory: Map<string, unknown>,
    /** Why there is no scrape before. */
    readonly whyAlone: string,
  ) {
    this.now = reading(look, dialect, group);
    this.#before = lookBefore && reading(lookBefore, dialect, group);
  }

  /** The scrape before, of the same process. */
  get before(): Reading {
    if (this.#before === null) throw new NotCheckable(this.whyAlone);
    return this.#before;
  }

  /** The whole page, without prefix and group. */
  get page(): Reading {
    return new Reading(this.look.exposition, "");
  }

  /** Nothing was under way when this scrape was taken. */
  get rest(): boolean {
    return this.known.rest;
  }

  /** No client left and no request failed since the server's start. */
  get clean(): boolean {
    return this.known.clean;
  }

  /** Both. */
  get cleanRest(): boolean {
    return this.known.clean && this.known.rest;
  }

  /** The dialect's version, where there are several. */
  versionOf(dialect: DialectName): VersionId | null {
    return this.look.versions.get(dialect)?.id ?? null;
  }

  /** True if the page itself, or the caller, tells the version. */
  isVersionTold(dialect: DialectName): boolean {
    return (this.look.versions.get(dialect)?.toldBy ?? "") !== "";
  }

  /** True if the caller's mapping of names gave the dialect its families, or this family its name. */
  isMapped(dialect: DialectName, family?: string): boolean {
    const { mapped } = this.look.page;
    return mapped?.name === dialect && (family === undefined || mapped.families.has(family));
  }

  /** A sum that is 0 before its first event. Not checkable if a pasted text has none of its series: they may be left out. */
  orZero(name: string): Term {
    return this.look.exposition.mayBeExcerpt ? this.now.get(name) : this.now.orZero(name);
  }

  /** For laws that something is there. */
  needWhole(): void {
    if (this.look.exposition.excerpt !== null) throw new NotCheckable("an excerpt: what it lacks may be left out");
  }

  /** Rest at both scrapes, and between them. */
  needStill(): void {
    void this.before;
    this.needRest();
    if (!this.known.still) throw new NotCheckable("requests were under way at the scrape before, or since");
  }

  /** Not checkable elsewhere: nothing was under way. */
  needRest(): void {
    if (!this.rest) throw new NotCheckable("the server was not seen at rest (--rest says that it is)");
  }

  /** Not checkable elsewhere: no client left, no request failed. */
  needClean(): void {
    if (!this.clean) throw new NotCheckable("nobody says that no client left and no request failed (--clean does)");
  }

  /** Both. */
  needCleanRest(): void {
    this.needClean();
    this.needRest();
  }

  /** A flag of the server; not checkable where the caller did not tell it. */
  parameter<K extends keyof Parameters>(name: K): NonNullable<Parameters[K]> {
    const value = this.known.parameters[name];
    if (value === undefined) throw new NotCheckable(`unknown: ${flagOf(name)}`);
    return value;
  }

  /** How much a counter has moved since the scrape before; a series that was not there was 0. */
  delta(name: string, where: Where = {}): Term {
    const before = this.before.orZero(name, where);
    const { value } = minus(this.now.get(name, where), before);
    return { value, text: `Δ ${this.now.text(name, where)}` };
  }

  /** How much a histogram's sum and count have moved. */
  deltaOf(name: string): HistogramTerms {
    return { sum: this.delta(`${name}_sum`), count: this.delta(`${name}_count`) };
  }

  /** What the driver of the load knows; not checkable where nothing was said. */
  get truth(): Truth {
    if (this.look.truth === null) throw new NotCheckable("needs what the driver of the load knows (truth)");
    return this.look.truth;
  }

  /** One number of it. */
  truthOf(name: keyof Truth): Term {
    const value = this.truth[name];
    if (value === undefined) throw new NotCheckable(`the driver of the load does not say ${name}`);
    return { value, text: `truth.${name}` };
  }

  /** Since the scrape before. */
  truthDelta(name: keyof Truth): Term {
    const now = this.truthOf(name);
    const before = this.lookBefore?.truth?.[name];
    if (before === undefined) throw new NotCheckable(this.whyAlone);
    return { value: now.value - before, text: `Δ truth.${name}` };
  }
}

/** An engine that was not there has no series. */
function reading(
  { exposition, groups }: ParsedScrape,
  dialect: CheckedDialect | null,
  group: ScrapedLabels | null,
): Reading {
  const prefix = dialect?.prefix ?? "";
  if (dialect === null || group === null) return new Reading(exposition, prefix);
  const found = groups.get(dialect.name)?.all.get(groupKey(group));
  return new Reading(exposition, prefix, group, found?.byName ?? new Map());
}

export function flagOf(name: keyof Parameters): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}
