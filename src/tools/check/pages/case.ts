/** The input of a law: one scrape, the scrape before it, and the known facts about the server and its load. */

import { type CheckedDialect, type Groups, groupKey } from "./dialects.ts";
import type { Exposition, ScrapedLabels } from "./exposition.ts";
import { type DialectName, minus, NotCheckable, type Term } from "./law.ts";
import type { NamedPage } from "./naming.ts";
import { type HistogramTerms, Reading, type Where } from "./reading.ts";
import type { PageVersion, VersionId } from "./versions.ts";

/** Flags of the server that no metric shows. They have vLLM's names if vLLM has such a flag. */
export interface Parameters {
  /** Maximum number of sequences in one step. */
  readonly maxNumSeqs?: number;
  /** Maximum number of tokens of a prompt and its answer together. */
  readonly maxModelLen?: number;
  /** Tokens per KV block. */
  readonly blockSize?: number;
  /** Number of KV blocks of one engine, including the null block. */
  readonly numGpuBlocks?: number;
  /** True if prompts that begin alike share blocks. */
  readonly enablePrefixCaching?: boolean;
  /** Draft tokens per step. */
  readonly numSpeculativeTokens?: number;
  /** Maximum number of different LoRA adapters in one step. */
  readonly maxLoras?: number;
  /** Number of API server processes behind one address. With several, a page mixes values from different moments. */
  readonly apiServerCount?: number;
  /** Duration of the shortest step, in milliseconds. */
  readonly minStepMs?: number;
  /** Names of the Triton models that may send several responses per request. `true` means all models. */
  readonly decoupled?: readonly string[] | true;
  /**
   * Names of the Triton models that are ensembles. Default: the model named "ensemble", and the one around TensorRT-LLM's
   * executor.
   */
  readonly ensembles?: readonly string[];
  /** True if every Triton request has a batch size of one. */
  readonly batchOfOne?: boolean;
  /** True if all dialects of the page show the same moment. Their gauges are then compared under load, too. */
  readonly oneInstant?: boolean;
  /** True if TensorRT-LLM runs with `GUARANTEED_NO_EVICT`. */
  readonly noEvict?: boolean;
}

/** Totals since the server's start, as a load generator knows them that sent all requests. */
export interface Truth {
  /** Requests that HTTP accepted, however they ended. */
  readonly requests?: number;
  /** Requests that were answered to the end. */
  readonly finished?: number;
  /** Requests whose client disconnected before the end. */
  readonly clientAborts?: number;
  /** Requests that were refused at admission. */
  readonly refused?: number;
  /** Prompt tokens of all admitted requests. */
  readonly promptTokens?: number;
  /** Prompt tokens of admitted requests that the prefix cache had. */
  readonly cachedTokens?: number;
  /** Output tokens of all requests. */
  readonly generationTokens?: number;
  /** Number of times that a request lost its KV blocks. */
  readonly preemptions?: number;
}

/** One scrape, parsed. */
export interface ParsedScrape {
  /** The page with the names that its dialects define. */
  readonly exposition: Exposition;
  /** Maps the canonical names back to those that the page wrote. */
  readonly page: NamedPage;
  /** Engines or models of each dialect on the page. */
  readonly groups: ReadonlyMap<DialectName, Groups>;
  /** Time of the scrape in seconds, from any start. */
  readonly atS: number;
  /** True if `atS` is the time of the scrape, false if it only gives the order. */
  readonly isTimed: boolean;
  /** Name of the scrape for reports: a URL or a file. */
  readonly source: string;
  /** Totals of the load generator. Null if the caller gave none. */
  readonly truth: Truth | null;
  /** Parsed JSON of Triton's `/v2/models/stats`, fetched with the page. */
  readonly tritonStats: unknown;
  /** Recognised version of each dialect whose versions differ. */
  readonly versions: ReadonlyMap<DialectName, PageVersion>;
}

/** Facts about the server at the time of a scrape. */
export interface ScrapeConditions {
  /** Flags of the server, as the caller gave them. */
  readonly parameters: Parameters;
  /** True if no request was under way at this scrape. */
  readonly rest: boolean;
  /** True if in addition none was under way at the scrape before, and none ran in between. */
  readonly still: boolean;
  /** True if no client disconnected and no request failed since the server started. */
  readonly clean: boolean;
}

/** The argument of a law's `check`. */
export class Case {
  /** Values of this scrape. */
  readonly now: Reading;
  readonly #before: Reading | null;

  constructor(
    /** This scrape. */
    readonly look: ParsedScrape,
    /** The scrape before, of the same process. Null if there is none. */
    readonly lookBefore: ParsedScrape | null,
    dialect: CheckedDialect | null,
    /** Labels of the engine or model. Null for a law on the whole page. */
    group: ScrapedLabels | null,
    /** Known facts apart from the pages. */
    readonly known: ScrapeConditions,
    /** Values that the law keeps from scrape to scrape, separate for each law and group. */
    readonly memory: Map<string, unknown>,
    /** The reason why there is no scrape before. */
    readonly whyAlone: string,
  ) {
    this.now = reading(look, dialect, group);
    this.#before = lookBefore && reading(lookBefore, dialect, group);
  }

  /** Values of the scrape before, of the same process. Throws `NotCheckable` if there is none. */
  get before(): Reading {
    if (this.#before === null) throw new NotCheckable(this.whyAlone);
    return this.#before;
  }

  /** Values of the whole page, by full names and over all groups. */
  get page(): Reading {
    return new Reading(this.look.exposition, "");
  }

  /** True if no request was under way at this scrape. */
  get rest(): boolean {
    return this.known.rest;
  }

  /** True if no client disconnected and no request failed since the server's start. */
  get clean(): boolean {
    return this.known.clean;
  }

  /** True if the server was at rest at this scrape, and no client disconnected and no request failed since its start. */
  get cleanRest(): boolean {
    return this.known.clean && this.known.rest;
  }

  /** Returns the version of the dialect. Null if its versions do not differ. */
  versionOf(dialect: DialectName): VersionId | null {
    return this.look.versions.get(dialect)?.id ?? null;
  }

  /** True if the page or the caller shows the version. False if the newest version is only assumed. */
  isVersionTold(dialect: DialectName): boolean {
    return (this.look.versions.get(dialect)?.toldBy ?? "") !== "";
  }

  /** True if the caller's mapping named families of the dialect, or this family of it. */
  isMapped(dialect: DialectName, family?: string): boolean {
    const { mapped } = this.look.page;
    return mapped?.name === dialect && (family === undefined || mapped.families.has(family));
  }

  /**
   * Returns a sum that is 0 before the first event. Throws `NotCheckable` if an excerpt has none of its series, because they
   * may be left out.
   */
  orZero(name: string): Term {
    return this.look.exposition.mayBeExcerpt ? this.now.get(name) : this.now.orZero(name);
  }

  /** Throws `NotCheckable` if the page is an excerpt. For laws that require a series to exist. */
  needWhole(): void {
    if (this.look.exposition.excerpt !== null)
      throw new NotCheckable("the page is an excerpt and may leave out series");
  }

  /** Throws `NotCheckable` unless the server was at rest at both scrapes and in between. */
  needStill(): void {
    void this.before;
    this.needRest();
    if (!this.known.still) throw new NotCheckable("requests were under way at the scrape before, or since");
  }

  /** Throws `NotCheckable` unless no request is known to be under way. */
  needRest(): void {
    if (!this.rest) throw new NotCheckable("the server was not seen at rest (--rest declares it)");
  }

  /** Throws `NotCheckable` unless the caller says that no client disconnected and no request failed. */
  needClean(): void {
    if (!this.clean)
      throw new NotCheckable("clients may have left or requests failed (--clean declares that none did)");
  }

  /** Throws `NotCheckable` unless both `needClean` and `needRest` pass. */
  needCleanRest(): void {
    this.needClean();
    this.needRest();
  }

  /** Returns a flag of the server. Throws `NotCheckable` if the caller did not give it. */
  parameter<K extends keyof Parameters>(name: K): NonNullable<Parameters[K]> {
    const value = this.known.parameters[name];
    if (value === undefined) throw new NotCheckable(`unknown: ${flagOf(name)}`);
    return value;
  }

  /** Returns by how much a counter grew since the scrape before. A series that was missing before counts as 0. */
  delta(name: string, where: Where = {}): Term {
    const before = this.before.orZero(name, where);
    const { value } = minus(this.now.get(name, where), before);
    return { value, text: `Δ ${this.now.text(name, where)}` };
  }

  /** Returns by how much a histogram's sum and count grew since the scrape before. */
  deltaOf(name: string): HistogramTerms {
    return { sum: this.delta(`${name}_sum`), count: this.delta(`${name}_count`) };
  }

  /** Totals of the load generator. Throws `NotCheckable` if the caller gave none. */
  get truth(): Truth {
    if (this.look.truth === null) throw new NotCheckable("needs the totals of the load generator (truth)");
    return this.look.truth;
  }

  /** Returns one total of the load generator. Throws `NotCheckable` if it is not given. */
  truthOf(name: keyof Truth): Term {
    const value = this.truth[name];
    if (value === undefined) throw new NotCheckable(`the totals of the load generator lack ${name}`);
    return { value, text: `truth.${name}` };
  }

  /** Returns by how much a total of the load generator grew since the scrape before. */
  truthDelta(name: keyof Truth): Term {
    const now = this.truthOf(name);
    const before = this.lookBefore?.truth?.[name];
    if (before === undefined) throw new NotCheckable(this.whyAlone);
    return { value: now.value - before, text: `Δ truth.${name}` };
  }
}

/** Returns the values of a group in a scrape. A group that the scrape does not have has no series. */
function reading(
  { exposition, groups }: ParsedScrape,
  dialect: CheckedDialect | null,
  group: ScrapedLabels | null,
): Reading {
  const prefix = dialect?.prefix ?? "";
  if (dialect === null || group === null) return new Reading(exposition, prefix);
  const series = groups.get(dialect.name)?.all.get(groupKey(group));
  return new Reading(exposition, prefix, group, series?.byName ?? new Map());
}

export function flagOf(name: keyof Parameters): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}
