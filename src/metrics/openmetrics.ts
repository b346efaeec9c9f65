/**
 * Prints a page in OpenMetrics 1.0. The name of a counter's family has no `_total`, but its samples do. `_created`
 * follows the other samples with the same labels. Floats are canonical, no line is blank, and the last line is `# EOF`.
 * prom-client is not used because, once it prints this format, the counters of its registry stay renamed.
 */
import {
  areEqual,
  escapeLabel,
  type Family,
  type Labels,
  Lines,
  printFloat,
  printLabels,
  type Sample,
  type Style,
} from "./rows/text.ts";

/** Returns the style with canonical floats. Labels keep the dialect's order. */
const canonical = (style: Style): Style => ({ ...style, float: printFloat });

/** Prints the page. A family name must occur only once. */
export function printOpenMetrics(families: readonly (Family & { readonly style: Style })[]): string {
  let text = "";
  for (const family of families) text += printOpenMetricsFamily(family, new Lines());
  return text + END;
}

/** The last line of a page. */
export const END = "# EOF\n";

/** Prints a family of a page. `lines`: cache of its printed lines. */
export function printOpenMetricsFamily(family: Family & { readonly style: Style }, lines: Lines): string {
  const { style } = family;
  return style.openMetrics?.(family, lines) ?? printFamily(family, canonical(style));
}

function printFamily({ name, help, type, values, created = [] }: Family, style: Style): string {
  const family = type === "counter" ? name.replace(/_total$/, "") : name;
  const line = (sample: string, { labels, value }: Sample) =>
    `${sample}${printLabels(labels, style)} ${style.float(value)}\n`;
  let text = `# HELP ${family} ${escapeLabel(help)}\n# TYPE ${family} ${type}\n`;
  let at = 0;
  for (const [i, sample] of values.entries()) {
    text += line(type === "counter" ? `${family}_total` : (sample.metricName ?? name), sample);
    // All samples of a child must be consecutive, because parsers refuse interleaved children.
    if (at === created.length || !areEqual(created[at]!.labels, childOf(sample))) continue;
    const next = values[i + 1];
    if (next === undefined || !areEqual(childOf(sample), childOf(next)))
      text += line(`${family}_created`, created[at++]!);
  }
  for (; at < created.length; at++) text += line(`${family}_created`, created[at]!);
  return text;
}

/** Returns the labels of a sample without those that distinguish samples of one child. */
function childOf({ labels }: Sample): Labels {
  if (!("le" in labels) && !("quantile" in labels)) return labels;
  const { le: _, quantile: __, ...child } = labels;
  return child;
}
