/** Types of a check: its scrapes, options, verdicts and report. */
import type { Parameters, Truth } from "./pages/case.ts";
import type { DialectName, Law, Severity, Term } from "./pages/law.ts";
import type { NameMap } from "./pages/name-map.ts";
import type { ParseOptions } from "./pages/parse.ts";
import type { ToldVersion } from "./pages/versions.ts";

/** One look at a server, as it was taken. */
export interface Scrape extends ParseOptions {
  /** The body as it came; text or bytes. */
  readonly text: string | Uint8Array;
  /** Seconds, from 1970 or any start; default: one second after the scrape before. */
  readonly atS?: number;
  /** For the report: a URL or a file. */
  readonly source?: string;
  /** The caller knows that nothing was under way when this scrape was taken; since the one before there may have been load. */
  readonly rest?: boolean;
  /** What the driver of the load knows, as totals since the server's start. */
  readonly truth?: Truth;
  /** The JSON of Triton's `/v2/models/stats`, taken with it. */
  readonly tritonStats?: unknown;
}

/** What is known of the server, and which laws are looked at. */
export interface CheckOptions {
  /** Flags of the server, in camel case. */
  readonly parameters?: Parameters;
  /** The caller knows that since the server's start no client left and no request failed. */
  readonly clean?: boolean;
  /** Ids of the laws to look at; default all. */
  readonly only?: readonly string[];
  /** Laws of one's own, made with `law`, beside ours. */
  readonly laws?: readonly Law[];
  /** Versions of the checked servers (`V0`, `0.10.2`, `24.05`), in place of what the page tells. */
  readonly engineVersions?: readonly string[];
  /** Which families of an engine of your own stand for which of a dialect, so that the dialect's laws apply. */
  readonly names?: NameMap;
  /** Gauges of what is under way, by the names of the page: 0 at rest, as law G19 demands. */
  readonly restGauges?: readonly string[];
}

/** A page that is a part of one. */
export interface ExcerptSeen {
  /** As the scrape has it. */
  readonly source: string;
  /** Time of that scrape. */
  readonly atS: number;
  /** Lines like `...`, from 1. */
  readonly gaps: readonly number[];
  /** The histogram in the middle of whose buckets the text ends. */
  readonly cut: string | null;
}

/** A law that does not hold, and where. */
export interface Violation {
  /** The law's id. */
  readonly law: string;
  /** How grave it is. */
  readonly severity: Severity;
  /** What was found. */
  readonly left: Term;
  /** Between the two sides: `=`, `≤`, `≥`; empty: `left.text` is a whole sentence. */
  readonly relation: string;
  /** What it was compared with. */
  readonly right: Term;
  /** As the scrape has it. */
  readonly source: string;
  /** Time of that scrape. */
  readonly atS: number;
  /** The scrape that it was compared with. */
  readonly beforeS: number | null;
  /** Where it comes from, in place of what its law looks like. */
  readonly looksLike?: string;
}

/** A violation that a current real engine shows too. */
export interface Note extends Violation {
  /** The thread that tells of it. */
  readonly known: string;
}

/** A scrape of which nothing can be said. */
export interface UnreadableScrape {
  /** As the scrape has it. */
  readonly source: string;
  /** Time of that scrape. */
  readonly atS: number;
  /** In a sentence. */
  readonly why: string;
}

/** What became of a law. `note`: a current real engine does this too. */
export type Verdict = "held" | "violated" | "note" | "not checkable";

/** One law over all scrapes. */
export interface LawResult {
  /** As `V05`. */
  readonly id: string;
  /** Where it applies. */
  readonly of: Law["of"];
  /** What it says. */
  readonly sentence: string;
  /** How grave a violation is. */
  readonly severity: Severity;
  /** What became of it. */
  readonly verdict: Verdict;
  /** How often it was looked at, per engine and scrape. */
  readonly looks: number;
  /** All of them. */
  readonly violationCount: number;
  /** The first ones. */
  readonly violations: readonly Violation[];
  /** What a current real engine does, with its thread. */
  readonly notes: readonly Note[];
  /** Why it could not be looked at, or not everywhere. */
  readonly reason: string;
  /** What a violation means. */
  readonly means: string;
  /** Known bugs that look like that. */
  readonly looksLike: string;
}

/** What the laws say of the scrapes. */
export interface Report {
  /** Whose metrics these are. */
  readonly dialects: readonly DialectName[];
  /** Versions of the dialects that have several, and what told them. */
  readonly versions: readonly ToldVersion[];
  /** The first ones. */
  readonly excerpts: readonly ExcerptSeen[];
  /** Pages that could be read. */
  readonly scrapes: number;
  /** Laws that could be looked at: held, violated, or with a note. */
  readonly applicable: number;
  /** Why only general laws could be judged, in a sentence; null if at least one law of a dialect could be. */
  readonly generalOnly: string | null;
  /** Families of `names` and gauges of `restGauges` that no page had. */
  readonly namesMissing: readonly string[];
  /** How often the process began anew. */
  readonly restarts: number;
  /** Engines or models that were too many to look at each. */
  readonly leftOut: number;
  /** Scrapes of which nothing can be said, with their reason. */
  readonly unreadable: readonly UnreadableScrape[];
  /** All that apply, in the order of docs/check.md. */
  readonly laws: readonly LawResult[];
  /** Those that are violated, whatever their severity: `errors`, `warnings`, and those for information. */
  readonly violated: readonly LawResult[];
  /** Severity E: a truth is broken. Empty is what a test wants. */
  readonly errors: readonly LawResult[];
  /** Severity W: suspicious, may be legal. */
  readonly warnings: readonly LawResult[];
}
