/**
 * A strict parser of the Prometheus text format 0.0.4 and of OpenMetrics 1.0. It continues after a defect, so that one bad
 * line does not hide the rest. Where real parsers differ it follows the strictest: Go's expfmt for syntax, Prometheus for
 * OpenMetrics. Unlike them it also checks histograms (`shapes.ts`).
 */

import { GapTracker, isGap } from "./excerpt.ts";
import {
  type Exposition,
  FAULTS_KEPT,
  type FamilyType,
  type Fault,
  type FaultKind,
  type Format,
  type ScrapedFamily,
  type ScrapedSample,
  seriesKey,
  seriesText,
  type Unreadable,
} from "./exposition.ts";
import { isName, readSample } from "./sample-line.ts";
import { shapeFaults } from "./shapes.ts";
import { untypedFaults } from "./untyped.ts";

/** Maximum number of bytes of a page. Real servers write some hundred kilobytes at most. */
export const DEFAULT_MAX_BYTES = 16 * 1024 * 1024;
/** Number of broken lines after which the parser stops. */
const BROKEN_LINES_MOST = 1000;

/**
 * Bytes of the maximum page size per allowed family, and per allowed sample. They bound the memory, because a family or sample
 * takes up to a kilobyte, however short its line is. Real pages have about 400 bytes per family and 70 per sample.
 */
const BYTES_PER_FAMILY = 160;
const BYTES_PER_SAMPLE = 32;

const TEXT_TYPES = ["counter", "gauge", "histogram", "summary", "untyped"];
const OPENMETRICS_TYPES = [
  ...["counter", "gauge", "histogram", "summary"],
  ...["unknown", "info", "stateset", "gaugehistogram"],
];

/** Suffixes that samples of a type may add to the family's name. "" means the name itself. */
const SUFFIXES: Readonly<Record<Format, Readonly<Record<string, readonly string[]>>>> = {
  text: { histogram: ["_bucket", "_sum", "_count"], summary: ["", "_sum", "_count"] },
  openmetrics: {
    counter: ["_total", "_created"],
    histogram: ["_bucket", "_sum", "_count", "_created"],
    gaugehistogram: ["_bucket", "_gsum", "_gcount"],
    summary: ["", "_sum", "_count", "_created"],
    info: ["_info"],
  },
};
const ANY_SUFFIX = /_(bucket|sum|count|total|created|gsum|gcount|info)$/;
const CRLF_LOOKS_LIKE = "a text that was saved, checked out or copied with the line ends of Windows";
const LOST_BLANK_LOOKS_LIKE = "a text that lost blanks on its way through an editor or a page";
const CUT_LOOKS_LIKE = "a write or a download that was cut off";

/** Options of the parser. */
export interface ParseOptions {
  /** Content-Type of the response. Without one, a text that ends in `# EOF` is read as OpenMetrics. */
  readonly contentType?: string | null;
  /** Maximum number of bytes of a page. Larger texts are unreadable. Default 16 MiB. */
  readonly maxBytes?: number;
  /**
   * True if the text was pasted or saved by hand and may be a part of a page. Lines such as `...` are then gaps, not errors.
   * Default: true without a Content-Type, because no server sends such lines.
   */
  readonly excerpt?: boolean;
}

/** Parses a page. Never throws, whatever the bytes. */
export function parse(input: string | Uint8Array, options: ParseOptions = {}): Exposition | Unreadable {
  const maxBytes = options.maxBytes ?? DEFAULT_MAX_BYTES;
  if (input.length > maxBytes) {
    return { unreadable: `more than ${megabytes(maxBytes)} of text: not read` };
  }
  const { text, badByteLine } = decode(input);
  const why = notAnExposition(text, options.contentType ?? "");
  if (why !== undefined) return { unreadable: why };
  const excerpt = options.excerpt ?? !options.contentType;
  return new Reader(text, formatOf(text, options.contentType ?? ""), excerpt, badByteLine).read(maxBytes);
}

function megabytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}

function decode(input: string | Uint8Array): { readonly text: string; readonly badByteLine: number } {
  if (typeof input === "string") return { text: input, badByteLine: 0 };
  try {
    return { text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(input), badByteLine: 0 };
  } catch {
    return { text: new TextDecoder("utf-8", { ignoreBOM: true }).decode(input), badByteLine: badLine(input) };
  }
}

/** Returns the number of the first line with bytes that are not UTF-8. */
function badLine(bytes: Uint8Array): number {
  const strict = new TextDecoder("utf-8", { fatal: true });
  for (let line = 1, at = 0; ; line++) {
    const end = bytes.indexOf(10, at);
    try {
      strict.decode(bytes.subarray(at, end < 0 ? bytes.length : end));
    } catch {
      return line;
    }
    if (end < 0) return line;
    at = end + 1;
  }
}

function notAnExposition(text: string, contentType: string): string | undefined {
  if (/protobuf/i.test(contentType)) return "protobuf; ask for text";
  const start = text.slice(0, 1000).trimStart();
  if (start === "" && text.trim() === "") return "an empty answer";
  if (start.startsWith("\u001f\ufffd") || start.startsWith("\u001f\u008b")) return "gzip, not text";
  if (start.startsWith("<")) return "HTML or XML, not an exposition";
  if (/^[[{]/.test(start)) return "JSON, not an exposition";
  return undefined;
}

function formatOf(text: string, contentType: string): Format {
  if (/openmetrics-text/i.test(contentType)) return "openmetrics";
  if (/text\/plain/i.test(contentType)) return "text";
  return /(^|\n)# EOF\s*$/.test(text.slice(-20)) ? "openmetrics" : "text";
}

/** A defect that many lines may have. It is counted, but reported only once. */
interface RepeatedDefect {
  lines: number;
  first: number;
}

function count(defect: RepeatedDefect, line: number): void {
  if (defect.lines++ === 0) defect.first = line;
}

class Reader {
  readonly #families = new Map<string, ScrapedFamily>();
  readonly #byName = new Map<string, ScrapedSample[]>();
  readonly #faults: Fault[] = [];
  readonly #faultsByKind = new Map<FaultKind, number>();
  readonly #seen = new Map<string, number>();
  readonly #typed = new Set<string>();
  readonly #gapTracker = new GapTracker();
  #faultCount = 0;
  readonly #crlf: RepeatedDefect = { lines: 0, first: 0 };
  readonly #lostBlanks: RepeatedDefect = { lines: 0, first: 0 };
  #current: ScrapedFamily | null = null;
  #ended = false;

  constructor(
    readonly text: string,
    readonly format: Format,
    readonly mayBeExcerpt: boolean,
    badByteLine: number,
  ) {
    if (badByteLine > 0) this.#fault("syntax", badByteLine, "bytes that are not UTF-8");
  }

  read(maxBytes: number): Exposition | Unreadable {
    const familiesMost = Math.ceil(maxBytes / BYTES_PER_FAMILY);
    const samplesMost = Math.ceil(maxBytes / BYTES_PER_SAMPLE);
    const { text, format } = this;
    let line = 0;
    let samples = 0;
    for (let at = 0; at < text.length; ) {
      const end = text.indexOf("\n", at);
      const content = text.slice(at, end < 0 ? text.length : end);
      at = end < 0 ? text.length : end + 1;
      line++;
      if (this.#line(content, line)) samples++;
      if (this.#families.size > familiesMost) return { unreadable: `more than ${familiesMost} families: not read` };
      if (samples > samplesMost) return { unreadable: `more than ${samplesMost} samples: not read` };
      if (end < 0)
        this.#fault("syntax", line, "the last line does not end in a newline: is the text cut off?", CUT_LOOKS_LIKE);
      if ((this.#faultsByKind.get("syntax") ?? 0) > BROKEN_LINES_MOST) break;
    }
    if (format === "openmetrics" && !this.#ended) {
      this.#fault("syntax", line, "no # EOF at the end: is the text cut off?", CUT_LOOKS_LIKE);
    }
    this.#repeatedFaults();
    if (samples === 0 && this.#families.size === 0) {
      const [first] = this.#faults;
      return { unreadable: `not an exposition${first ? `: line ${first.line}: ${first.message}` : ""}` };
    }
    if (this.mayBeExcerpt && this.#current !== null) this.#gapTracker.end(this.#current);
    for (const family of this.#families.values()) {
      for (const { kind, line, message } of shapeFaults(family, this.#gapTracker.torn.has(family.name)))
        this.#fault(kind, line, message);
    }
    for (const { line, message } of untypedFaults(this.#families, this.#byName, this.#typed, this.#gapTracker))
      this.#fault("untyped", line, message);
    this.#faults.sort((a, b) => a.line - b.line);
    return {
      format,
      families: this.#families,
      faults: this.#faults,
      faultCount: this.#faultCount,
      byName: this.#byName,
      excerpt: this.#gapTracker.excerpt(),
      mayBeExcerpt: this.mayBeExcerpt,
    };
  }

  /** Reports each defect that typically affects all lines once, with the number of lines. */
  #repeatedFaults(): void {
    const all = ({ lines }: RepeatedDefect) => (lines > 1 ? ` (${lines} lines have that)` : "");
    const [crlf, lost] = [this.#crlf, this.#lostBlanks];
    if (crlf.lines > 0) {
      const message = `the line ends in CRLF; only LF is a line end${all(crlf)}`;
      this.#fault("syntax", crlf.first, message, CRLF_LOOKS_LIKE);
    }
    if (lost.lines > 0) {
      const message = `no blank after #, so Prometheus reads the line as a plain comment${all(lost)}`;
      this.#fault("lost-blank", lost.first, message, LOST_BLANK_LOOKS_LIKE);
    }
  }

  #fault(kind: FaultKind, line: number, message: string, looksLike?: string): void {
    this.#faultCount++;
    const before = this.#faultsByKind.get(kind) ?? 0;
    this.#faultsByKind.set(kind, before + 1);
    const fault = { kind, line, message, ...(looksLike === undefined ? {} : { looksLike }) };
    if (before < FAULTS_KEPT) this.#faults.push(fault);
  }

  /** Reads one line. Returns true if it is a sample. */
  #line(content: string, line: number): boolean {
    if (this.#ended && content !== "") this.#fault("syntax", line, "text after # EOF");
    if (content.endsWith("\r")) {
      count(this.#crlf, line);
      content = content.slice(0, -1);
    }
    if (this.mayBeExcerpt && isGap(content)) {
      this.#gapTracker.gap(line, this.#current);
      return false;
    }
    if (content.startsWith("#")) {
      this.#comment(content, line);
      return false;
    }
    if (content.trim() === "") {
      if (this.format === "openmetrics") this.#fault("syntax", line, "a blank line, which OpenMetrics does not have");
      return false;
    }
    const sample = readSample(content, line, this.format);
    if (typeof sample === "string") {
      this.#fault("syntax", line, sample);
      return false;
    }
    this.#sample(sample);
    return true;
  }

  #comment(content: string, line: number): void {
    if (content === "# EOF") {
      if (this.format === "openmetrics") this.#ended = true;
      return;
    }
    const [, blank = "", keyword, name = "", rest = ""] =
      /^#([ \t]*)(HELP|TYPE|UNIT)[ \t]+(\S+)(?:[ \t](.*))?$/s.exec(content) ?? [];
    if (keyword !== undefined && blank === "") count(this.#lostBlanks, line);
    if (keyword === undefined) {
      if (/^#[ \t]+(HELP|TYPE)\b/.test(content))
        this.#fault("syntax", line, `"${content.slice(0, 40)}" names no family`);
      else if (this.format === "openmetrics") this.#fault("syntax", line, "a comment, which OpenMetrics does not have");
      return;
    }
    if (!isName(name)) {
      this.#fault("syntax", line, `"${name.slice(0, 40)}" is not a metric name`);
      return;
    }
    if (keyword === "UNIT" && this.format === "text") return;
    const family = this.#open(name, line);
    if (keyword === "HELP") this.#help(family, rest, line);
    else if (keyword === "TYPE") this.#type(family, rest.trim(), line);
    else {
      if (!name.endsWith(`_${rest}`)) this.#fault("syntax", line, `unit ${rest} is not the end of the name ${name}`);
      family.unit = rest;
    }
  }

  #help(family: ScrapedFamily, escaped: string, line: number): void {
    const known = this.format === "text" ? /\\([\\n])/g : /\\([\\n"])/g;
    const bad = escaped.replace(known, "").match(/\\./);
    if (bad) this.#fault("syntax", line, `the help text of ${family.name} has the escape ${bad[0]}`);
    if (family.help !== null) this.#fault("family", line, `a second # HELP of ${family.name}`);
    family.help = escaped.replace(known, (_, char: string) => (char === "n" ? "\n" : char));
  }

  #type(family: ScrapedFamily, type: string, line: number): void {
    const known = this.format === "text" ? TEXT_TYPES : OPENMETRICS_TYPES;
    if (!known.includes(type)) {
      this.#fault("syntax", line, `"${type.slice(0, 40)}" is not a type; accepted are ${known.join(", ")}`);
      return;
    }
    if (this.#typed.has(family.name)) this.#fault("family", line, `a second # TYPE of ${family.name}`);
    else if (family.samples.length > 0) this.#fault("family", line, `# TYPE of ${family.name} after its first sample`);
    else family.type = type as FamilyType;
    this.#typed.add(family.name);
  }

  /** Returns the family, made if it is new. Reports a defect if other families came since its last line. */
  #open(name: string, line: number): ScrapedFamily {
    let family = this.#families.get(name);
    if (family === undefined) {
      const type = this.format === "text" ? "untyped" : "unknown";
      family = { name, type, help: null, unit: null, samples: [], line };
      this.#families.set(name, family);
    } else if (family !== this.#current && !this.#gapTracker.goesOnBehindGap(family)) {
      this.#fault(
        "family",
        line,
        `${name} continues here; its lines must form one block (it began at line ${family.line})`,
      );
    }
    this.#current = family;
    this.#gapTracker.line(family, line);
    return family;
  }

  #sample(sample: ScrapedSample): void {
    const family = this.#open(this.#familyOf(sample.name), sample.line);
    this.#gapTracker.sample(family, sample.line);
    const key = seriesKey(sample);
    const before = this.#seen.get(key);
    if (before !== undefined && !(this.format === "openmetrics" && sample.timestamp !== null)) {
      const series = seriesText(sample.name, sample.labels);
      this.#fault("duplicate", sample.line, `${series} occurs a second time (first at line ${before})`);
      // Keep the first sample, as Prometheus does, so that sums over the series stay right.
      return;
    }
    this.#seen.set(key, sample.line);
    this.#needed(family, sample);
    family.samples.push(sample);
    const same = this.#byName.get(sample.name);
    if (same) same.push(sample);
    else this.#byName.set(sample.name, [sample]);
  }

  /** Reports missing labels that the type requires, and names that the type does not allow. */
  #needed(family: ScrapedFamily, { name, labels, line }: ScrapedSample): void {
    if (/histogram$/.test(family.type) && name === `${family.name}_bucket` && labels.le === undefined) {
      this.#fault("syntax", line, `a bucket of ${family.name} without le`);
    }
    if (family.type === "summary" && name === family.name && labels.quantile === undefined) {
      this.#fault("syntax", line, `a sample of the summary ${family.name} without quantile`);
    }
    const suffixes = SUFFIXES[this.format][family.type] ?? [""];
    if (!suffixes.includes(name.slice(family.name.length))) {
      this.#fault(
        "syntax",
        line,
        `${name} is not a sample of a ${family.type}; accepted suffixes are ${suffixes.join(", ") || "none"}`,
      );
    }
  }

  #familyOf(name: string): string {
    const suffixes = SUFFIXES[this.format];
    const base = name.replace(ANY_SUFFIX, "");
    const parent = base === name ? undefined : this.#families.get(base);
    if (parent && suffixes[parent.type]?.includes(name.slice(base.length))) return base;
    return name;
  }
}
