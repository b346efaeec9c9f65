/** Recognises that a new process answers: by its start time, by creation times, or because all counters fell. */

import { isAmbient } from "../pages/catalogue.ts";
import { type Exposition, type ScrapedSample, seriesKey, seriesText } from "../pages/exposition.ts";

/** Returns the process start time in seconds since 1970. Null if the page has none. */
export function startOf({ byName }: Exposition): number | null {
  const start = byName.get("process_start_time_seconds")?.[0]?.value;
  return start === undefined || start === 0 ? null : start;
}

function counters({ families }: Exposition): Map<string, ScrapedSample> {
  const byKey = new Map<string, ScrapedSample>();
  for (const { type, name, samples } of families.values()) {
    if (isAmbient(name)) continue;
    for (const sample of samples) {
      const counts = type === "counter" || (type === "histogram" && sample.name.endsWith("_count"));
      if (counts && !sample.name.endsWith("_created")) byKey.set(seriesKey(sample), sample);
    }
  }
  return byKey;
}

/** Sorts the counters that were above 0 into those that fell and those that did not. */
export function fellTogether(
  now: Exposition,
  before: Exposition,
): { readonly fell: string[]; readonly stayed: string[] } {
  const later = counters(now);
  const fell: string[] = [];
  const stayed: string[] = [];
  for (const [key, sample] of counters(before)) {
    const same = later.get(key);
    if (sample.value <= 0 || same === undefined) continue;
    (same.value < sample.value ? fell : stayed).push(seriesText(sample.name, sample.labels));
  }
  return { fell, stayed };
}

/** True if no request counter moved, so that no counted request began or ended in between. */
export function stoodStill(now: Exposition, before: Exposition): boolean {
  return counters(now).size > 0 && movedCounters(now, before) === 0;
}

/** Returns how many request counters changed. A series that was missing before counts as 0. */
export function movedCounters(now: Exposition, before: Exposition): number {
  const earlier = counters(before);
  let moved = 0;
  for (const [key, { value }] of counters(now)) if ((earlier.get(key)?.value ?? 0) !== value) moved++;
  return moved;
}

/**
 * Reports whether the process restarted. The start time decides; without it, most creation times must be later; without those,
 * all counters must have fallen. A start time that fell is not a restart: two processes answer in turn.
 */
export function isRestart(now: Exposition, before: Exposition): boolean {
  const [start, startBefore] = [startOf(now), startOf(before)];
  if (start !== null && startBefore !== null) return start > startBefore + 1;
  const created = createdTimes(now);
  const createdBefore = createdTimes(before);
  const common = [...created.keys()].filter((key) => createdBefore.has(key));
  if (common.length > 0) {
    const grown = common.filter((key) => created.get(key)! > createdBefore.get(key)! + 1).length;
    return grown > common.length / 2;
  }
  return fellToNearZero(now, before);
}

/** Largest share of the counters' sum that may be left after a restart. Two workers with similar load differ by less. */
const LEFT_MOST = 0.5;

export function fellToNearZero(now: Exposition, before: Exposition): boolean {
  const { fell, stayed } = fellTogether(now, before);
  if (fell.length < 3 || stayed.length > 0) return false;
  const sum = (of: Exposition) => [...counters(of).values()].reduce((all, { value }) => all + value, 0);
  return sum(now) <= LEFT_MOST * sum(before);
}

function createdTimes({ byName }: Exposition): Map<string, number> {
  const times = new Map<string, number>();
  for (const [name, samples] of byName) {
    if (name.endsWith("_created")) for (const sample of samples) times.set(seriesKey(sample), sample.value);
  }
  return times;
}
