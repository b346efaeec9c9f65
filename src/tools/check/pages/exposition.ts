/** What does a scrape say? The neutral form of a text exposition, its defects, and how it is printed again. */

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

/** An OpenMetrics exemplar. */
export interface Exemplar {
  /** Labels of the observation. */
  readonly labels: ScrapedLabels;
  /** The observation. */
  readonly value: number;
  /** When it was made, seconds since 1970. */
  readonly timestampS: number | null;
}

/** One line of a page with a value. */
export interface ScrapedSample {
  /** With its suffix: `x_bucket`. */
  readonly name: string;
  /** In the order of the text. */
  readonly labels: ScrapedLabels;
  /** NaN and the infinities as they are. */
  readonly value: number;
  /** As the text gives it: ms in 0.0.4, seconds in OpenMetrics. */
  readonly timestamp: number | null;
  /** An example behind the value, in OpenMetrics. */
  readonly exemplar: Exemplar | null;
  /** From 1. */
  readonly line: number;
}

/** One metric with its samples. */
export interface ScrapedFamily {
  /** Without suffixes. */
  readonly name: string;
  /** What TYPE says; `untyped` or `unknown` where nothing does. */
  type: FamilyType;
  /** What HELP says, unescaped. */
  help: string | null;
  /** What UNIT says, in OpenMetrics. */
  unit: string | null;
  /** In the order of the text. */
  readonly samples: ScrapedSample[];
  /** Line of its first mention, from 1. */
  readonly line: number;
}

/** What a defect is about; each kind is a law of its own (`laws/general.ts`). */
export type FaultKind = "syntax" | "lost-blank" | "duplicate" | "family" | "untyped" | "monotone" | "infinity";

/** A defect of the text, which went on to be read. */
export interface Fault {
  /** Which law it breaks. */
  readonly kind: FaultKind;
  /** From 1. */
  readonly line: number;
  /** What is wrong, in a sentence. */
  readonly message: string;
  /** Where such a text comes from, if the message alone says it; in place of what its law looks like. */
  readonly looksLike?: string;
}

/** Where a pasted text says, or shows, that it is a part of a page. */
export interface Excerpt {
  /** Lines like `...`, from 1. */
  readonly gaps: readonly number[];
  /** Families of which lines are missing for it, or may be. */
  readonly torn: ReadonlySet<string>;
  /** The histogram in the middle of whose buckets the text ends. */
  readonly cut: string | null;
}

/** A page of metrics, read. */
export interface Exposition {
  /** Which of the two text formats it is. */
  readonly format: Format;
  /** Metrics by name, in the order of the text. */
  readonly families: ReadonlyMap<string, ScrapedFamily>;
  /** At most `FAULTS_KEPT` of each kind. */
  readonly faults: readonly Fault[];
  /** All of them. */
  readonly faultCount: number;
  /** Samples by their own name, `x_bucket` and `x_sum` apart. */
  readonly byName: ReadonlyMap<string, readonly ScrapedSample[]>;
  /** Null: the text is whole, as far as it shows. */
  readonly excerpt: Excerpt | null;
  /** True if somebody may have left out lines without a mark: a text without a Content-Type. */
  readonly mayBeExcerpt: boolean;
}

/** What is no exposition at all: HTML, JSON, nothing, too much. Nothing can be said of its laws. */
export interface Unreadable {
  /** Why, in a sentence. */
  readonly unreadable: string;
}

export const FAULTS_KEPT = 50;

/** One text for equal label sets, whatever their order. */
export function labelKey(labels: ScrapedLabels, without = ""): string {
  const names = Object.keys(labels);
  if (names.length > 1) names.sort();
  let key = "";
  for (const name of names) if (name !== without) key += `${name}\u0001${labels[name]}\u0002`;
  return key;
}

/** One text for a series, whatever the order of its labels. */
export const seriesKey = ({ name, labels }: ScrapedSample): string => `${name}\u0000${labelKey(labels)}`;

/** As it stands in the text: `x{a="b"}`. */
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

/** The text that `parse` reads back as the same exposition. */
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
