/**
 * Prints metrics like the real server. prom-client only collects, because it writes numbers and labels in its own way.
 * A style writes like one kind of server. `python` follows prometheus_client 0.26 `exposition.py` and `utils.py`:
 * labels sorted by name, floats as Python's `repr`, with Go's exponent from one million on.
 */

/** Label values. A number is printed as a float (`le`, `quantile`). */
export type Labels = Readonly<Record<string, string | number>>;

export interface Sample {
  /** Name of the sample if it differs from the family's. */
  readonly metricName?: string;
  readonly labels: Labels;
  readonly value: number;
}

export interface Family {
  readonly name: string;
  readonly help: string;
  readonly type: "gauge" | "counter" | "histogram" | "summary";
  readonly values: readonly Sample[];
  /** Creation times of the series. In the text format they are a family of gauges after this one. */
  readonly created?: readonly Sample[];
  /** True for a gauge whose whole numbers are printed as floats, too. */
  readonly floats?: true;
}

/** Writes values and labels like one kind of server. */
export interface Style {
  readonly float: (value: number) => string;
  /** Returns the names in the order in which they are written. */
  readonly labelNames: (labels: Labels) => readonly string[];
  /** Prints a family in OpenMetrics. Absent: openmetrics.ts prints it with canonical floats. */
  readonly openMetrics?: (family: Family, lines: Lines) => string;
}

/** Lines of a family as last printed. Names and labels seldom change, and most values do not change from page to page. */
export class Lines {
  readonly #printed: Line[] = [];

  /** `print`: writes the value. */
  of(at: number, name: string, { labels, value }: Sample, style: Style, print = style.float): string {
    let line = this.#printed[at];
    if (line === undefined || line.name !== name || !areEqual(line.labels, labels)) {
      line = { name, labels, head: `${name}${printLabels(labels, style)} `, value: Number.NaN, text: "" };
      this.#printed[at] = line;
    }
    if (line.text === "" || !Object.is(line.value, value)) {
      line.value = value;
      line.text = `${line.head}${print(value)}\n`;
    }
    return line.text;
  }
}

interface Line {
  readonly name: string;
  readonly labels: Labels;
  readonly head: string;
  value: number;
  text: string;
}

/** Returns true if both have the same names with the same values. */
export function areEqual(left: Labels, right: Labels): boolean {
  if (left === right) return true;
  let more = 0;
  for (const name in left) {
    if (left[name] !== right[name]) return false;
    more++;
  }
  for (const _ in right) more--;
  return more === 0;
}

/**
 * Prints a family in text format 0.0.4. `lines`: cache of the family's printed lines; pass the same object for the same family
 * and style.
 */
export function printFamily({ name, help, type, values, created }: Family, style: Style, lines = new Lines()): string {
  const text = familyText(name, help, type, values, 0);
  if (created === undefined) return text;
  const suffix = type === "counter" ? /_total$/ : /$/;
  return text + familyText(name.replace(suffix, "_created"), help, "gauge", created, values.length);

  function familyText(name: string, help: string, type: string, samples: readonly Sample[], from: number): string {
    let text = `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n`;
    for (let i = 0; i < samples.length; i++) {
      const sample = samples[i]!;
      text += lines.of(from + i, sample.metricName ?? name, sample, style);
    }
    return text;
  }
}

export function printLabels(labels: Labels, { float, labelNames }: Style): string {
  const names = labelNames(labels);
  if (names.length === 0) return "";
  const pairs = names.map((name) => {
    const value = labels[name]!;
    return `${name}="${typeof value === "number" ? float(value) : escapeLabel(value)}"`;
  });
  return `{${pairs.join(",")}}`;
}

export const escapeHelp = (text: string) => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
/** Also escapes help texts of OpenMetrics. */
export const escapeLabel = (text: string) => escapeHelp(text).replaceAll('"', '\\"');

/** Prints like `floatToGoString` of prometheus_client: `1.0`, `1e-05`, `+Inf`, and from one million on `1.7e+09`. */
export function printFloat(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  if (value === Number.NEGATIVE_INFINITY) return "-Inf";
  if (value >= 1e6 && value < 1e16) {
    const [mantissa, exponent] = value.toExponential().split("e+");
    return `${mantissa}e+${exponent!.padStart(2, "0")}`;
  }
  return pythonRepr(value);
}

/** Prints like Python's `repr` of a finite float or NaN: the same shortest digits as JavaScript, but with other rules for the exponent. */
export function pythonRepr(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e16)) return value.toExponential().replace(/(?<=e[+-])(?=\d$)/, "0");
  if (Object.is(value, -0)) return "-0.0";
  return Number.isInteger(value) ? `${value}.0` : `${value}`;
}

export const python: Style = { float: printFloat, labelNames: (labels) => Object.keys(labels).sort() };
