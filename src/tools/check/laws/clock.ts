/**
 * The law on impossible times: finds values that no clock or counter can give. A 64-bit difference that fell below zero
 * appears as 1.8e19, or as 584 years if it counts nanoseconds. Sources: server#1985 (durations of Triton's ensembles: 1.3e20
 * µs), server#2137.
 */
import type { Case } from "../pages/case.ts";
import { eachSample, labelKey, type ScrapedFamily, type ScrapedSample, seriesText } from "../pages/exposition.ts";
import { atMost, type LawOutcome, lawsOf, type Mismatch, type Term, term } from "../pages/law.ts";

const law = lawsOf("any", "page");

const LIMIT = 2 ** 63;
const HOUR_S = 3600;
const MONTH_S = 30 * 24 * HOUR_S;
const YEAR_S = 365.25 * 24 * HOUR_S;
/** Longest life of a server process. A request cannot have lasted longer. */
const OLDEST_S = 10 * YEAR_S;
/** Seconds that 2^63 nanoseconds are: 292 years. */
const LIMIT_NS_S = LIMIT / 1e9;
/** Seconds between a request's arrival and the moment when the gauges count it. Its prompt is tokenized first. */
const ARRIVAL_S = 10;

/** Seconds per unit, by the end of a family's name. */
const UNITS: readonly (readonly [ending: RegExp, seconds: number])[] = [
  [/_seconds$/, 1],
  [/_(ms|milliseconds)$/, 1e-3],
  [/_us$/, 1e-6],
  [/_ns$/, 1e-9],
];
/**
 * Families that may exceed 2^63: operations and bytes of a GPU reach it within hours or weeks
 * (`vllm:estimated_flops_per_gpu_total`).
 */
const FAST = /flops|bytes/;
/** Families that vLLM V1 measures from the clock's zero if the engine aborted the request before its first token (law V18). */
const FROM_ZERO = /^vllm:request_(inference|prefill|decode)_time_seconds$/;
const PER_REQUEST = /^nv_inference_\w+_duration_us$/;
const OF_KNOWN_SERVER = /^(vllm:|nv_|trtllm_|dynamo_frontend_)/;

const text = ({ name, labels }: ScrapedSample): string => seriesText(name, labels);
const secondsOf = (family: string): number | undefined => UNITS.find(([ending]) => ending.test(family))?.[1];

/** The summed time of a series, and the number of its observations. */
interface TotalTime {
  readonly family: string;
  readonly key: string;
  readonly sample: ScrapedSample;
  readonly totalS: number;
  readonly count: Term;
}

/** Returns the times of a page: histograms and summaries whose names end in a unit of time, and Triton's duration counters. */
function timesOf(byName: ReadonlyMap<string, readonly ScrapedSample[]>): TotalTime[] {
  const counts = new Map<string, Map<string, number>>();
  const countOf = (name: string, key: string, without: string): number | undefined => {
    let known = counts.get(name);
    if (known === undefined) {
      known = new Map();
      for (const { labels, value } of byName.get(name) ?? []) {
        const labelSet = labelKey(labels, without);
        known.set(labelSet, (known.get(labelSet) ?? 0) + value);
      }
      counts.set(name, known);
    }
    return known.get(key);
  };
  const times: TotalTime[] = [];
  for (const [name, samples] of byName) {
    const isTriton = PER_REQUEST.test(name);
    const family = isTriton ? name : name.endsWith("_sum") ? name.slice(0, -"_sum".length) : "";
    const unitS = secondsOf(family);
    if (unitS === undefined) continue;
    for (const sample of samples) {
      const key = labelKey(sample.labels);
      const count = isTriton
        ? sumOf(
            countOf("nv_inference_request_success", key, ""),
            countOf("nv_inference_request_failure", key, "reason"),
          )
        : countOf(`${family}_count`, key, "");
      if (count === undefined) continue;
      const counted = isTriton ? "requests" : `${family}_count`;
      times.push({ family, key, sample, totalS: sample.value * unitS, count: term(counted, count) });
    }
  }
  return times;
}

const sumOf = (successes: number | undefined, failures = 0): number | undefined =>
  successes === undefined ? undefined : successes + failures;

/**
 * Explains a value as an unsigned difference that wrapped around. Returns "" if it is not near a multiple of 2^64 in any unit.
 */
function unsignedDifference(value: number): string {
  for (const divisor of [1, 1e3, 1e6, 1e9]) {
    const wrap = 2 ** 64 / divisor;
    const wraps = Math.round(value / wrap);
    const rest = value - wraps * wrap;
    if (wraps < 1 || wraps > 1e6 || Math.abs(rest) > wrap / 100) continue;
    const times = wraps === 1 ? "" : `${wraps} · `;
    const unit = divisor === 1 ? "" : ` ÷ ${divisor}`;
    return `${value} is ${times}2^64${unit} ${rest < 0 ? "−" : "+"} ${Math.abs(rest)}: an unsigned 64-bit difference fell below zero`;
  }
  return "";
}

const LOOKS_LIKE =
  "server#1985: an unsigned 64-bit difference that fell below zero, as in the durations of Triton's ensembles";

function broken(left: Term, relation: string, right: Term, value: number): Mismatch {
  const named = unsignedDifference(value);
  return { left, relation, right, looksLike: named === "" ? LOOKS_LIKE : `${named} (server#1985)` };
}

/** Reports whether a sample is a counter, a count, a sum, or a gauge of running work. */
function isCount({ type, name }: ScrapedFamily, sample: ScrapedSample, c: Case): boolean {
  if (FAST.test(name)) return false;
  if (type === "counter" || type === "histogram" || c.look.page.isUnderWay(sample.name, sample.labels)) return true;
  if (type === "gauge") return false;
  return /_(sum|count|bucket|total)$/.test(sample.name) || PER_REQUEST.test(sample.name);
}

function tooLarge(c: Case): LawOutcome[] {
  return eachSample(c.look.exposition, (sample, family): LawOutcome[] => {
    const { value } = sample;
    if (!Number.isFinite(value) || value < LIMIT || !isCount(family, sample, c)) return [];
    return [broken(term(text(sample), value), "<", term("2^63", LIMIT), value)];
  });
}

function tooLong({ sample, totalS, count }: TotalTime): LawOutcome {
  const meanS = totalS / Math.max(1, count.value);
  if (sample.value >= LIMIT || !Number.isFinite(totalS)) return null;
  const years = term(`${text(sample)}, in years,`, totalS / YEAR_S);
  if (meanS > OLDEST_S)
    return broken(years, "≤", term(`10 · ${count.text}`, 10 * Math.max(1, count.value)), sample.value);
  const isWrapped = totalS >= LIMIT_NS_S && meanS > HOUR_S;
  return isWrapped ? broken(years, "<", term("2^63 ns, in years,", LIMIT_NS_S / YEAR_S), sample.value) : null;
}

/** Returns the number of requests that run or wait in all vLLM engines of the page before. Null if it lacks these gauges. */
function underWay(c: Case): number | null {
  const page = c.lookBefore!.exposition.byName;
  const gauges = ["running", "waiting", "swapped"].flatMap((state) => page.get(`vllm:num_requests_${state}`) ?? []);
  return gauges.length === 0 ? null : gauges.reduce((sum, { value }) => sum + value, 0);
}

/**
 * Returns the most seconds that may have been added since the scrape before. Requests that began after it cannot be older than
 * it; earlier requests may be.
 */
function mostAddedS(time: TotalTime, ended: number, c: Case): number {
  const [now, before] = [c.look, c.lookBefore!];
  const elapsedS = now.isTimed && before.isTimed ? Math.max(0, now.atS - before.atS) : MONTH_S;
  if (!OF_KNOWN_SERVER.test(time.family)) return (ended + 1) * (elapsedS + OLDEST_S);
  const vllm = now.page.dialects.find(({ name }) => name === "vllm");
  const isOneInstant = vllm?.collected !== true && (c.known.parameters.apiServerCount ?? 1) < 2;
  const open = time.family.startsWith("vllm:") && isOneInstant && c.isMapped("vllm") === false ? underWay(c) : null;
  // A Triton ensemble sums the times of its steps, and steps may run at the same time.
  const steps = PER_REQUEST.test(time.family) ? (now.exposition.byName.get(time.sample.name)?.length ?? 1) : 1;
  const older = open === null ? ended + 1 : Math.min(open, ended);
  return steps * ((ended + 1) * (elapsedS + ARRIVAL_S) + older * MONTH_S);
}

function tooFast(c: Case, times: readonly TotalTime[]): LawOutcome[] {
  if (c.lookBefore === null) return [];
  const earlier = new Map(timesOf(c.lookBefore.exposition.byName).map((time) => [time.family + time.key, time]));
  return times.flatMap((time): LawOutcome[] => {
    const before = earlier.get(time.family + time.key);
    if (before === undefined || FROM_ZERO.test(time.family)) return [];
    const ended = time.count.value - before.count.value;
    const addedS = time.totalS - before.totalS;
    if (!(ended >= 0) || !(addedS > 0)) return [];
    const mostS = mostAddedS(time, ended, c);
    const left = term(`Δ ${text(time.sample)}, in seconds,`, addedS);
    const right = term(`elapsed time · requests under way (${ended} ended)`, mostS);
    const outcome = atMost(left, right);
    return outcome === null ? [] : [broken(left, "≤", right, time.sample.value - before.sample.value)];
  });
}

export const clockLaws = [
  law("G21", {
    sentence:
      "counters, counts and sums are below 2^63, and times are possible for a clock; between two scrapes a time grows by at most the elapsed time · the requests under way",
    needs: ["one scrape", "two scrapes"],
    tolerance: "10 years per request; of known servers 30 days for requests of unknown age",
    means:
      "A start time is later than its end time, or a number was subtracted from a smaller one. Rates and averages of it are wrong.",
    looksLike: LOOKS_LIKE,
    check: (c) => {
      const times = timesOf(c.look.exposition.byName);
      return [...tooLarge(c), ...times.map(tooLong), ...tooFast(c, times)];
    },
  }),
];
