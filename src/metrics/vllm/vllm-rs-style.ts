/**
 * Prints like vLLM 0.33's front end in Rust (crate `prometheus-client`): counters and most gauges are whole numbers, sums
 * and bounds are floats with the digits of the crate `dtoa`. `le` is the first label, and a histogram begins with its sum.
 */
import { doubleText } from "../../base/double-text.ts";
import { escapeHelp, type Family, type Labels, type Lines, type Sample, type Style } from "../rows/text.ts";

/** Labels in their order. Further labels of a series follow in the order of its table. */
const ORDER = ["le", "model_name", "engine", "method", "status", "handler"];

function labelNames(labels: Labels): readonly string[] {
  const known = ORDER.filter((name) => name in labels);
  return [...known, ...Object.keys(labels).filter((name) => !ORDER.includes(name))];
}

const float = (value: number) => (value === Number.POSITIVE_INFINITY ? "+Inf" : doubleText(value));
const floats: Style = { float, labelNames };

const whole = (value: number) => (Number.isInteger(value) ? `${value}` : float(value));

export const rustStyle: Style = { ...floats, openMetrics };

function openMetrics({ name, help, type, values, floats: isFloat }: Family, lines: Lines): string {
  const family = type === "counter" ? name.replace(/_total$/, "") : name;
  let text = `# HELP ${family} ${escapeHelp(help)}\n# TYPE ${family} ${type}\n`;
  const samples = type === "histogram" ? sumFirst(name, values) : values;
  for (let i = 0; i < samples.length; i++) {
    const sample = samples[i]!;
    const sampleName = sample.metricName ?? name;
    text += lines.of(i, sampleName, sample, floats, isFloat || sampleName === `${name}_sum` ? float : whole);
  }
  return text;
}

/** Moves sum and count of each series, which follow its buckets, before them. */
function sumFirst(name: string, values: readonly Sample[]): readonly Sample[] {
  const samples: Sample[] = [];
  let from = 0;
  for (let i = 0; i < values.length; i++) {
    if (values[i]!.metricName !== `${name}_sum`) continue;
    samples.push(values[i]!, values[i - 1]!, ...values.slice(from, i - 1));
    from = i + 1;
  }
  return samples;
}
