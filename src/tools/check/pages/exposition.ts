/** A parsed metrics page: families, samples, and the defects of the text. Also prints it again. */

/** Prometheus' text format 0.0.4, or OpenMetrics 1.0. */
export type Format = "text" | "openmetrics";

/** Types of metrics of both formats. */
export type FamilyType =
  | "counter"
  | "gauge"
  | "histogram"
  | "summary"
  | "untyped"
  | "unknown"
  | "info"
  | "stateset"
  | "gaugehistogram";

/** Labels of a sample: values by name. */
export type ScrapedLabels = Readonly<Record<string, string>>;

/** An OpenMetrics exemplar: one observation behind a value. */
export interface Exemplar {
  /** Labels of the observation. */
  readonly labels: ScrapedLabels;
  /** The observation. */
  readonly value: number;
  /** Time of the observation, in seconds since 1970. Null if the page gives none. */
  readonly timestampS: number | null;
}

/** One line of a page with a value. */
export interface ScrapedSample {
  /** Full name with its suffix, such as `x_bucket`. */
  readonly name: string;
  /** Labels in the order of the text. */
  readonly labels: ScrapedLabels;
  /** The value. It may be NaN or infinite. */
  readonly value: number;
  /** Timestamp as written: milliseconds in 0.0.4, seconds in OpenMetrics. Null if the line has none. */
  readonly timestamp: number | null;
  /** Exemplar of an OpenMetrics sample. Null if the line has none. */
  readonly exemplar: Exemplar | null;
  /** Line number, from 1. */
  readonly line: number;
}

/** One metric with its samples. */
export interface ScrapedFamily {
  /** Family name without suffixes. */
  readonly name: string;
  /** Type from the TYPE line. Without such a line `untyped`, in OpenMetrics `unknown`. */
  type: FamilyType;
  /** Help text from the HELP line, unescaped. Null without such a line. */
  help: string | null;
  /** Unit from OpenMetrics' UNIT line. Null without such a line. */
  unit: string | null;
  /** Samples in the order of the text. */
  readonly samples: ScrapedSample[];
  /** Number of the first line that names the family, from 1. */
  readonly line: number;
}

/** Kind of a defect. Each kind belongs to one law (`laws/general.ts`). */
export type FaultKind = "syntax" | "lost-blank" | "duplicate" | "family" | "untyped" | "monotone" | "infinity";

/** A defect of the text. The parser continued after it. */
export interface Fault {
  /** Kind of the defect, which decides on the law. */
  readonly kind: FaultKind;
  /** Line number, from 1. */
  readonly line: number;
  /** The defect, in one sentence. */
  readonly message: string;
  /** Likely cause of the defect, if the message alone shows it. Replaces the law's own `looksLike`. */
  readonly looksLike?: string;
}

/** Marks that a text is only a part of a page. */
export interface Excerpt {
  /** Numbers of the lines that stand for left-out lines, such as `...`. The first line is 1. */
  readonly gaps: readonly number[];
  /** Families that may lack lines for this reason. */
  readonly torn: ReadonlySet<string>;
  /** Histogram within whose buckets the text ends. Null if the text does not end within one. */
  readonly cut: string | null;
}

/** A parsed metrics page. */
export interface Exposition {
  /** Text format of the page. */
  readonly format: Format;
  /** Families by name, in the order of the text. */
  readonly families: ReadonlyMap<string, ScrapedFamily>;
  /** Defects of the text, at most `FAULTS_KEPT` of each kind. */
  readonly faults: readonly Fault[];
  /** Number of all defects, including those that are not kept. */
  readonly faultCount: number;
  /** Samples by full name, so that `x_bucket` and `x_sum` are separate. */
  readonly byName: ReadonlyMap<string, readonly ScrapedSample[]>;
  /** Left-out places of an excerpt. Null if nothing shows that the text is one. */
  readonly excerpt: Excerpt | null;
  /** True if lines may be left out without a mark: a text that came without a Content-Type. */
  readonly mayBeExcerpt: boolean;
}

/** A text that is not a metrics page, such as HTML, JSON, an empty body, or one that is too large. */
export interface Unreadable {
  /** The reason, in one sentence. */
  readonly unreadable: string;
}

export const FAULTS_KEPT = 50;

/** Returns what `judge` makes of each sample of a page, in the page's order. */
export function eachSample<T>(
  { families }: Exposition,
  judge: (sample: ScrapedSample, family: ScrapedFamily) => readonly T[],
): T[] {
  return [...families.values()].flatMap((family) => family.samples.flatMap((sample) => judge(sample, family)));
}

/** Returns the same key for equal label sets in any order. `without`: a label to leave out. */
export function labelKey(labels: ScrapedLabels, without = ""): string {
  const names = Object.keys(labels);
  if (names.length > 1) names.sort();
  let key = "";
  for (const name of names) if (name !== without) key += `${name}\u0001${labels[name]}\u0002`;
  return key;
}

/** Returns the same key for equal series, whatever the order of their labels. */
export const seriesKey = ({ name, labels }: ScrapedSample): string => `${name}\u0000${labelKey(labels)}`;

/** Prints a series as pages do: `x{a="b"}`. */
export function seriesText(name: string, labels: ScrapedLabels): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}="${escapeLabel(value)}"`);
  return pairs.length === 0 ? name : `${name}{${pairs.join(",")}}`;
}

function escapeLabel(text: string): string {
  return text.replace(/[\\"\n]/g, (char) => (char === "\n" ? "\\n" : `\\${char}`));
}

export function numberText(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+Inf" : "-Inf";
  return String(value);
}

/** Prints a page such that `parse` reads the same families and samples back. */
export function print({ families, format }: Pick<Exposition, "families" | "format">): string {
  const lines: string[] = [];
  for (const family of families.values()) {
    if (family.help !== null) {
      const help = family.help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
      lines.push(`# HELP ${family.name} ${format === "openmetrics" ? help.replaceAll('"', '\\"') : help}`);
    }
    lines.push(`# TYPE ${family.name} ${family.type}`);
    if (family.unit !== null) lines.push(`# UNIT ${family.name} ${family.unit}`);
    for (const sample of family.samples) lines.push(sampleLine(sample));
  }
  if (format === "openmetrics") lines.push("# EOF");
  return lines.map((line) => `${line}\n`).join("");
}

function sampleLine({ name, labels, value, timestamp, exemplar }: ScrapedSample): string {
  let line = `${seriesText(name, labels)} ${numberText(value)}`;
  if (timestamp !== null) line += ` ${timestamp}`;
  if (exemplar !== null) {
    line += ` # ${seriesText("", exemplar.labels) || "{}"} ${numberText(exemplar.value)}`;
    if (exemplar.timestampS !== null) line += ` ${exemplar.timestampS}`;
  }
  return line;
}
