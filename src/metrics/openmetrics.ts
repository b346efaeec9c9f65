/**
 * How does a page look in OpenMetrics 1.0? A counter's family has no `_total` and each of its samples has, `_created` stands
 * in its family behind the other samples of its labels, floats are canonical, no line is blank and the last one is `# EOF`.
 * Printed here, not by prom-client, which renames the counters of a registry for good when it is asked for this format.
 */
import {
  areEqual,
  escapeLabel,
  type Family,
  type Labels,
  printFloat,
  printLabels,
  type Sample,
  type Style,
} from "./rows/text.ts";

/** Canonical floats whatever the dialect's own; labels in the dialect's order. */
const canonical = (style: Style): Style => ({ ...style, float: printFloat });

/** The page; a family name once. */
export function printOpenMetrics(families: readonly (Family & { readonly style: Style })[]): string {
  let text = "";
  for (const family of families) text += printFamily(family, canonical(family.style));
  return `${text}# EOF\n`;
}

function printFamily({ name, help, type, values, created = [] }: Family, style: Style): string {
  const family = type === "counter" ? name.replace(/_total$/, "") : name;
  const line = (sample: string, { labels, value }: Sample) =>
    `${sample}${printLabels(labels, style)} ${style.float(value)}\n`;
  let text = `# HELP ${family} ${escapeLabel(help)}\n# TYPE ${family} ${type}\n`;
  let at = 0;
  for (const [i, sample] of values.entries()) {
    text += line(type === "counter" ? `${family}_total` : (sample.metricName ?? name), sample);
    // All of a child stands together: parsers refuse samples of several in turn.
    if (at === created.length || !areEqual(created[at]!.labels, childOf(sample))) continue;
    const next = values[i + 1];
    if (next === undefined || !areEqual(childOf(sample), childOf(next)))
      text += line(`${family}_created`, created[at++]!);
  }
  for (; at < created.length; at++) text += line(`${family}_created`, created[at]!);
  return text;
}

/** Labels of a sample without those that tell the samples of a child apart. */
function childOf({ labels }: Sample): Labels {
  if (!("le" in labels) && !("quantile" in labels)) return labels;
  const { le: _, quantile: __, ...child } = labels;
  return child;
}
