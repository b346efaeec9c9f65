/** Applies `--fake-metrics` to a table. Families that it names show its values, all others the true ones. */

import { type FakeMetrics, waveAt } from "./config/fake-metrics.ts";
import type { Identity } from "./rows/identity.ts";
import type { Row } from "./rows/table.ts";
import type { Sample } from "./rows/text.ts";

/** `seconds`: time since the server's start, which waveforms depend on. */
export function withFakes(rows: readonly Row[], identity: Identity, seconds: () => number): readonly Row[] {
  const { fakes } = identity;
  if (fakes === undefined) return rows;
  return rows.map((row) => {
    const change = changeOf(row.name, fakes, identity, seconds);
    if (change === null) return row;
    return { ...row, samples: (...of) => change(row.samples(...of)), live: true };
  });
}

type Change = (samples: readonly Sample[]) => readonly Sample[];

function changeOf(name: string, fakes: FakeMetrics, { maxLoras }: Identity, seconds: () => number): Change | null {
  const wave = fakes.gauges[name];
  if (wave !== undefined) {
    const ofRequests = name.startsWith("vllm:num_requests");
    return (samples) => {
      const level = waveAt(wave, Math.floor(seconds() / fakes.refreshS) * fakes.refreshS);
      const value = ofRequests ? Math.round(level) : level;
      return samples.map((sample) => ({ ...sample, value }));
    };
  }
  const count = fakes.counters[name];
  if (count !== undefined) return (samples) => samples.map((sample) => ({ ...sample, value: count }));
  const { success, loras } = fakes;
  if (success !== null && name === "vllm:request_success_total")
    return (samples) => samples.map((sample) => ({ ...sample, value: success[sample.labels.finished_reason!] ?? 0 }));
  if (loras !== null && name === "vllm:lora_requests_info")
    return () =>
      loras.map(({ running, waiting, timestamp }) => ({
        labels: { max_lora: `${maxLoras}`, running_lora_adapters: running, waiting_lora_adapters: waiting },
        value: timestamp,
      }));
  const buckets = fakes.buckets[name];
  if (buckets !== undefined) return (samples) => filled(name, samples, (i) => buckets[i] ?? 0, null);
  const observed = fakes.observed[name];
  if (observed === undefined) return null;
  const sum = observed.reduce((total, value) => total + value, 0);
  return (samples) =>
    filled(name, samples, (_, above, to) => observed.filter((value) => value > above && value <= to).length, sum);
}

/**
 * Returns a histogram's samples with `countOf` observations per bucket. A `sum` of null is computed as if every
 * observation were at the upper bound of its bucket, or at the lower bound for the last bucket.
 */
function filled(
  name: string,
  samples: readonly Sample[],
  countOf: (index: number, above: number, to: number) => number,
  sum: number | null,
): readonly Sample[] {
  let [index, above, below, total] = [0, Number.NEGATIVE_INFINITY, 0, 0];
  return samples.map((sample) => {
    if (sample.metricName === `${name}_count`) return { ...sample, value: below };
    if (sample.metricName === `${name}_sum`) {
      const value = sum ?? total;
      [index, above, below, total] = [0, Number.NEGATIVE_INFINITY, 0, 0]; // next engine
      return { ...sample, value };
    }
    const to = Number(sample.labels.le);
    const count = countOf(index++, above, to);
    below += count;
    total += count * (to === Number.POSITIVE_INFINITY ? above : to);
    above = to;
    return { ...sample, value: below };
  });
}
