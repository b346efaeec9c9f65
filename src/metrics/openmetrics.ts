/**
 * How does a page look in OpenMetrics 1.0? A counter's family has no `_total` and each of its samples has, `_created` stands
 * inside its family, floats are canonical, no line is blank and the last one is `# EOF`. Printed here, not by prom-client,
 * which renames the counters of a registry for good when it is asked for this format.
 */
import { escapeLabel, type Family, printFloat, printLabels, type Sample, type Style } from "./text.ts";

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
  for (const sample of values) {
    text += line(type === "counter" ? `${family}_total` : (sample.metricName ?? name), sample);
  }
  for (const sample of created) text += line(`${family}_created`, sample);
  return text;
}
