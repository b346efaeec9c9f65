/** Parses one sample line strictly. Returns the sample, or a sentence that says what is wrong. */
import type { Exemplar, Format, ScrapedLabels, ScrapedSample } from "./exposition.ts";

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const LABEL_NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/;
/**
 * Numbers as the Prometheus parsers accept them with Go's ParseFloat: decimal, without underscores. The names of infinity and
 * NaN may have any case.
 */
const NUMBER = /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i;
const INFINITE = /^([+-]?)inf(inity)?$/i;
const NOT_A_NUMBER = /^[+-]?nan$/i;
/** Maximum number of characters of an exemplar's label names and values together, from OpenMetrics 1.0. */
const EXEMPLAR_CHARACTERS = 128;

export const isName = (text: string): boolean => NAME.test(text);

/** Parses a number. Returns undefined if the text is not one. */
export function readNumber(text: string): number | undefined {
  if (NUMBER.test(text)) return Number(text);
  const infinite = INFINITE.exec(text);
  if (infinite) return infinite[1] === "-" ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  return NOT_A_NUMBER.test(text) ? Number.NaN : undefined;
}

type Pairs = { readonly labels: ScrapedLabels; readonly end: number };

/**
 * Reads labels. `at` is the offset after the opening brace, the returned `end` the offset after the closing one. Returns a
 * sentence if the text is wrong.
 */
function readLabels(text: string, at: number): Pairs | string {
  const labels: Record<string, string> = Object.create(null);
  for (;;) {
    at = skipBlanks(text, at);
    if (text[at] === "}") return { labels, end: at + 1 };
    const equals = text.indexOf("=", at);
    if (equals < 0) return "the label set does not end: is the line cut off?";
    const name = text.slice(at, equals).trim();
    if (!LABEL_NAME.test(name)) return `"${short(name)}" is not a label name`;
    if (name in labels) return `label ${name} occurs twice`;
    at = skipBlanks(text, equals + 1);
    if (text[at] !== '"') return `the value of label ${name} must stand in quotes`;
    const value = readQuoted(text, at + 1, name);
    if (typeof value === "string") return value;
    labels[name] = value.value;
    at = skipBlanks(text, value.end);
    if (text[at] === ",") at++;
    else if (text[at] !== "}")
      return `label ${name} is followed by ${charText(text[at])}, must be followed by a comma or a brace`;
  }
}

function readQuoted(text: string, at: number, name: string): { readonly value: string; readonly end: number } | string {
  let plainEnd = at;
  for (; plainEnd < text.length; plainEnd++) {
    const code = text.charCodeAt(plainEnd);
    if (code === 34) return { value: text.slice(at, plainEnd), end: plainEnd + 1 };
    if (code === 92) break;
  }
  let value = text.slice(at, plainEnd);
  for (let i = plainEnd; i < text.length; i++) {
    const char = text[i]!;
    if (char === '"') return { value, end: i + 1 };
    if (char !== "\\") value += char;
    else {
      const escaped = text[++i];
      if (escaped === undefined) break;
      if (escaped !== "n" && escaped !== '"' && escaped !== "\\") {
        return `label ${name} has the escape \\${escaped}; accepted are \\\\, \\" and \\n`;
      }
      value += escaped === "n" ? "\n" : escaped;
    }
  }
  return `the value of label ${name} has no closing quote: is the line cut off?`;
}

function skipBlanks(text: string, at: number): number {
  while (text[at] === " " || text[at] === "\t") at++;
  return at;
}

function short(text: string): string {
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}

function charText(char: string | undefined): string {
  return char === undefined ? "the end of the line" : `"${char}"`;
}

/** Parses a sample line. `line` is its number from 1. Returns a sentence if the line is wrong. */
export function readSample(text: string, line: number, format: Format): ScrapedSample | string {
  let at = 0;
  while (at < text.length && text[at] !== "{" && text[at] !== " " && text[at] !== "\t") at++;
  const name = text.slice(0, at);
  if (!isName(name)) return `"${short(name)}" is not a metric name`;
  at = skipBlanks(text, at);
  let labels: ScrapedLabels = {};
  if (text[at] === "{") {
    const pairs = readLabels(text, at + 1);
    if (typeof pairs === "string") return pairs;
    labels = pairs.labels;
    at = pairs.end;
  }
  const rest = text.slice(at);
  const mark = rest.search(/[ \t]#[ \t]/);
  const fields = (mark < 0 ? rest : rest.slice(0, mark)).split(/[ \t]+/).filter((field) => field !== "");
  const [valueText, timeText, extra] = fields;
  if (valueText === undefined) return `${name} has no value: is the line cut off?`;
  const value = readNumber(valueText);
  if (value === undefined) return `"${short(valueText)}" is not a number`;
  if (extra !== undefined) return `"${short(extra)}" is unexpected after value and timestamp`;
  const timestamp = timeText === undefined ? null : readTimestamp(timeText, format);
  if (timestamp === undefined) {
    return `"${short(timeText!)}" is not a timestamp: ${format === "text" ? "whole milliseconds" : "seconds"}`;
  }
  if (mark < 0) return { name, labels, value, timestamp, exemplar: null, line };
  if (format === "text") return "an exemplar, which the text format 0.0.4 does not have";
  const exemplar = readExemplar(rest.slice(mark + 3));
  if (typeof exemplar === "string") return exemplar;
  if (!/_(bucket|total)$/.test(name)) return `${name} has an exemplar; only buckets and counters may`;
  return { name, labels, value, timestamp, exemplar, line };
}

function readTimestamp(text: string, format: Format): number | undefined {
  if (format === "text") return /^-?\d+$/.test(text) ? Number(text) : undefined;
  return NUMBER.test(text) ? Number(text) : undefined;
}

function readExemplar(text: string): Exemplar | string {
  const start = skipBlanks(text, 0);
  if (text[start] !== "{") return "an exemplar without label set";
  const pairs = readLabels(text, start + 1);
  if (typeof pairs === "string") return `exemplar: ${pairs}`;
  const characters = Object.entries(pairs.labels).reduce((sum, [name, value]) => sum + name.length + value.length, 0);
  if (characters > EXEMPLAR_CHARACTERS) {
    return `an exemplar with ${characters} characters of labels; ${EXEMPLAR_CHARACTERS} is the most`;
  }
  const fields = text
    .slice(pairs.end)
    .split(/[ \t]+/)
    .filter((field) => field !== "");
  const value = readNumber(fields[0] ?? "");
  const timestampS = fields[1] === undefined ? null : readTimestamp(fields[1], "openmetrics");
  if (value === undefined || timestampS === undefined || fields.length > 2) return "an exemplar without a number";
  return { labels: pairs.labels, value, timestampS };
}
