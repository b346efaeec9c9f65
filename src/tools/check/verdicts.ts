/** Types of a check: scrapes, options, verdicts and the report. */
import type { Parameters, Truth } from "./pages/case.ts";
import type { DialectName, Law, Severity, Term } from "./pages/law.ts";
import type { NameMap } from "./pages/name-map.ts";
import type { ParseOptions } from "./pages/parse.ts";
import type { PageVersion } from "./pages/versions.ts";

/** One metrics page of a server, with the circumstances of the scrape. */
export interface Scrape extends ParseOptions {
  /** Body of the response, as text or bytes. */
  readonly text: string | Uint8Array;
  /** Time of the scrape in seconds, from 1970 or from any start. Default: one second after the scrape before. */
  readonly atS?: number;
  /** Name of the scrape in reports: a URL or a file. */
  readonly source?: string;
  /**
   * True if the caller knows that no request was under way at this scrape. There may have been requests since the scrape
   * before.
   */
  readonly rest?: boolean;
  /** Totals since the server's start, as the load generator knows them. */
  readonly truth?: Truth;
  /** Parsed JSON of Triton's `/v2/models/stats`, fetched at the same time. */
  readonly tritonStats?: unknown;
}

/** Facts about the server, and the laws to judge. */
export interface CheckOptions {
  /** Flags of the server, in camel case. */
  readonly parameters?: Parameters;
  /** True if the caller knows that since the server's start no client disconnected and no request failed. */
  readonly clean?: boolean;
  /** Ids of the laws to judge. Default: all. */
  readonly only?: readonly string[];
  /** Additional laws, made with `law`. */
  readonly laws?: readonly Law[];
  /** Versions of the checked servers (`V0`, `0.10.2`, `24.05`). They override the version that the page shows. */
  readonly engineVersions?: readonly string[];
  /** Maps the family names of a custom engine to those of a dialect, so that the dialect's laws apply. */
  readonly names?: NameMap;
  /** Gauges of running work, by their names on the page. Law G19 demands that they are 0 at rest. */
  readonly restGauges?: readonly string[];
}

/** A scrape whose text is only a part of a page. */
export interface ScrapeExcerpt {
  /** Name of the scrape: a URL or a file. */
  readonly source: string;
  /** Time of the scrape, in seconds. */
  readonly atS: number;
  /** Numbers of the lines that stand for left-out lines, such as `...`. The first line is 1. */
  readonly gaps: readonly number[];
  /** Histogram within whose buckets the text ends. Null if the text does not end within one. */
  readonly cut: string | null;
}

/** A comparison that failed, with its law and its scrape. */
export interface Violation {
  /** Id of the law. */
  readonly law: string;
  /** Severity of this violation. It may be lower than the law's. */
  readonly severity: Severity;
  /** Left side of the comparison. */
  readonly left: Term;
  /** Required relation: `=`, `≤` or `≥`. Empty if `left.text` is a whole sentence. */
  readonly relation: string;
  /** Right side of the comparison. */
  readonly right: Term;
  /** Name of the scrape: a URL or a file. */
  readonly source: string;
  /** Time of the scrape, in seconds. */
  readonly atS: number;
  /** Time of the earlier scrape that was compared, in seconds. Null if the law needs only one scrape. */
  readonly beforeS: number | null;
  /** Likely cause of this violation. Replaces the law's own `looksLike`. */
  readonly looksLike?: string;
}

/** A violation that a current version of the real server also shows. */
export interface Note extends Violation {
  /** Public issue or source that describes it. */
  readonly known: string;
}

/** A scrape that could not be judged. */
export interface UnreadableScrape {
  /** Name of the scrape: a URL or a file. */
  readonly source: string;
  /** Time of the scrape, in seconds. */
  readonly atS: number;
  /** The reason, in one sentence. */
  readonly why: string;
}

/** Result of a law over all scrapes. `note`: violated only in a way that a current real server also shows. */
export type Verdict = "held" | "violated" | "note" | "not checkable";

/** Result of one law over all scrapes. */
export interface LawResult {
  /** Id of the law, such as `V05`. */
  readonly id: string;
  /** Dialect to which the law applies. */
  readonly of: Law["of"];
  /** The law in words. */
  readonly sentence: string;
  /** Severity of a violation of the law. */
  readonly severity: Severity;
  /** Result over all scrapes. */
  readonly verdict: Verdict;
  /** Number of judgements, summed over engines and scrapes. */
  readonly looks: number;
  /** Number of all violations, also of those that are not kept. */
  readonly violationCount: number;
  /** The first five violations. */
  readonly violations: readonly Violation[];
  /** The first five violations that a current real server also shows. */
  readonly notes: readonly Note[];
  /** Why the law could not be judged, or not for every engine. "" if it was judged everywhere. */
  readonly reason: string;
  /** Meaning of a violation for the server. */
  readonly means: string;
  /** Known bugs that cause such a violation. */
  readonly looksLike: string;
}

/** Result of a check over all scrapes. */
export interface Report {
  /** Dialects that were recognised on the pages. */
  readonly dialects: readonly DialectName[];
  /** Recognised versions, for the dialects whose versions differ, each with the evidence for it. */
  readonly versions: readonly PageVersion[];
  /** The first 20 scrapes that are only parts of pages. */
  readonly excerpts: readonly ScrapeExcerpt[];
  /** Number of pages that could be read. */
  readonly scrapes: number;
  /** Number of laws that could be judged: held, violated, or with a note. */
  readonly applicable: number;
  /** Why only general laws could be judged, in a sentence. Null if at least one other law could be judged. */
  readonly generalOnly: string | null;
  /** Families of `names` and gauges of `restGauges` that no page had. */
  readonly namesMissing: readonly string[];
  /** Number of restarts of the server's process. */
  readonly restarts: number;
  /** Engines or models that were not judged because the page had too many. */
  readonly leftOut: number;
  /** The first 20 scrapes that could not be judged, with the reasons. */
  readonly unreadable: readonly UnreadableScrape[];
  /** Results of all laws, in the order of docs/reference/laws.md. */
  readonly laws: readonly LawResult[];
  /** Results of the violated laws of any severity. */
  readonly violated: readonly LawResult[];
  /** Violated laws with a violation of severity E. A test should require that this list is empty. */
  readonly errors: readonly LawResult[];
  /** Violated laws without an E but with a W: suspicious, but possibly legal. */
  readonly warnings: readonly LawResult[];
}
