/** The room's face: parser, laws, and the check over scrapes of any server. Runs in Bun, Node and a browser. */

export type { Case, Parameters, Truth } from "./case.ts";
export { Checker, checkScrapes } from "./checker.ts";
export { dialects } from "./dialects.ts";
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
} from "./exposition.ts";
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
} from "./law.ts";
export { laws } from "./laws/index.ts";
export type { NameMap } from "./name-map.ts";
export { recognise } from "./naming.ts";
export { DEFAULT_MAX_BYTES, type ParseOptions, parse } from "./parse.ts";
export type {
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
export type { ToldVersion, Version, VersionId } from "./versions.ts";
