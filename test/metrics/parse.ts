/**
 * Reads the text format strictly, for tests. Throws for errors that a lenient scraper accepts: a repeated series, samples
 * outside their family, buckets that are not cumulative, and a missing or wrong +Inf bucket.
 */
export interface ParsedSample {
  readonly name: string;
  /** In the order of the text. */
  readonly labels: readonly (readonly [name: string, value: string])[];
  readonly value: number;
}

export interface ParsedFamily {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly samples: ParsedSample[];
  /** The family's lines, without the last newline. */
  text: string;
}

const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\["\\n])*)"(,|$)/y;

export function parseExposition(text: string): ParsedFamily[] {
  if (text !== "" && !text.endsWith("\n")) throw new Error("no newline at the end");
  const families: ParsedFamily[] = [];
  const seen = new Set<string>();
  let help: { name: string; text: string } | null = null;
  for (const line of text.split("\n").slice(0, -1)) {
    const comment = /^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)$/.exec(line);
    if (comment?.[1] === "HELP") help = { name: comment[2]!, text: comment[3]! };
    else if (comment) {
      if (help?.name !== comment[2]) throw new Error(`TYPE without its HELP: ${line}`);
      if (families.some(({ name }) => name === comment[2])) throw new Error(`family twice: ${line}`);
      const whole = `# HELP ${help!.name} ${help!.text}\n${line}`;
      families.push({ name: comment[2]!, help: help!.text, type: comment[3]!, samples: [], text: whole });
    } else {
      if (seen.has(line.slice(0, line.lastIndexOf(" ")))) throw new Error(`series twice: ${line}`);
      seen.add(line.slice(0, line.lastIndexOf(" ")));
      const family = families.at(-1);
      if (!family) throw new Error(`sample without a family: ${line}`);
      family.samples.push(parseSample(line, family));
      family.text += `\n${line}`;
    }
  }
  for (const family of families) if (family.type === "histogram") checkHistogram(family);
  return families;
}

function parseSample(line: string, family: ParsedFamily): ParsedSample {
  const parts = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
  if (!parts) throw new Error(`not a sample: ${line}`);
  const [, name, inside = "", number] = parts as unknown as [string, string, string | undefined, string];
  const suffixes = { histogram: ["_bucket", "_count", "_sum"], summary: ["", "_count", "_sum"] }[family.type] ?? [""];
  if (!suffixes.some((suffix) => name === family.name + suffix)) throw new Error(`not of ${family.name}: ${line}`);
  const labels: [string, string][] = [];
  LABEL.lastIndex = 0;
  while (LABEL.lastIndex < inside.length) {
    const label = LABEL.exec(inside);
    if (!label) throw new Error(`bad labels: ${line}`);
    labels.push([label[1]!, label[2]!.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c))]);
  }
  if (new Set(labels.map(([key]) => key)).size !== labels.length) throw new Error(`label twice: ${line}`);
  return { name, labels, value: parseNumber(number) };
}

function parseNumber(text: string): number {
  if (text === "+Inf") return Number.POSITIVE_INFINITY;
  if (text === "Nan") return Number.NaN; // an empty quantile of Triton's
  const value = Number(text);
  if (Number.isNaN(value)) throw new Error(`not a number: ${text}`);
  return value;
}

function checkHistogram({ name, samples }: ParsedFamily): void {
  const series = new Map<string, { bounds: number[]; buckets: number[]; count: number; sums: number }>();
  for (const { name: sample, labels, value } of samples) {
    const key = JSON.stringify(labels.filter(([label]) => label !== "le"));
    const entry = series.get(key) ?? { bounds: [], buckets: [], count: Number.NaN, sums: 0 };
    series.set(key, entry);
    if (sample === `${name}_count`) entry.count = value;
    else if (sample === `${name}_sum`) entry.sums++;
    else {
      entry.bounds.push(parseNumber(labels.find(([label]) => label === "le")![1]));
      entry.buckets.push(value);
    }
  }
  for (const [key, { bounds, buckets, count, sums }] of series) {
    const rises = (list: readonly number[], least: (a: number, b: number) => boolean) =>
      list.every((value, index) => index === 0 || least(list[index - 1]!, value));
    if (!rises(bounds, (a, b) => a < b)) throw new Error(`bounds out of order: ${name} ${key}`);
    if (!rises(buckets, (a, b) => a <= b)) throw new Error(`buckets not cumulative: ${name} ${key}`);
    if (bounds.at(-1) !== Number.POSITIVE_INFINITY) throw new Error(`no +Inf: ${name} ${key}`);
    if (buckets.at(-1) !== count) throw new Error(`+Inf is not the count: ${name} ${key}`);
    if (sums !== 1) throw new Error(`not one sum: ${name} ${key}`);
  }
}
