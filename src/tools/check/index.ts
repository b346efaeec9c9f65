/** Exports the public interface of the checker: parser, laws, and the check of scrapes. Runs in Bun, Node and browsers. */

export { Checker, checkScrapes } from "./checker.ts";
export { laws } from "./laws/index.ts";
export type { Case, Parameters, Truth } from "./pages/case.ts";
export { dialects } from "./pages/dialects.ts";
export {
  type Excerpt,
  type Exposition,
  type Fault,
  type FaultKind,
  type Format,
  print,
  type ScrapedFamily as Family,
  type ScrapedLabels as Labels,
  type ScrapedSample as Sample,
  type Unreadable,
} from "./pages/exposition.ts";
export {
  atLeast,
  atMost,
  complaint,
  type DialectName,
  equal,
  type Law,
  type LawOutcome,
  law,
  type OwnLaw,
  type Severity,
  type Term,
  term,
} from "./pages/law.ts";
export type { NameMap } from "./pages/name-map.ts";
export { recognise } from "./pages/naming.ts";
export { DEFAULT_MAX_BYTES, type ParseOptions, parse } from "./pages/parse.ts";
export type { PageVersion, Version, VersionId } from "./pages/versions.ts";
export type {
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
