/** The laws that hold within one scrape for every metrics page, whatever wrote it. G01–G09, G14, G15, G18. */
import type { Case } from "../pages/case.ts";
import { boundsKnown, countersWithoutTotal, sharingBounds, totalsThatAreNone } from "../pages/catalogue.ts";
import { isOfKnownServer } from "../pages/dialects.ts";
import type { FaultKind, ScrapedFamily, ScrapedSample } from "../pages/exposition.ts";
import { eachSample, numberText, seriesText } from "../pages/exposition.ts";
import { atLeast, atMost, complaint, equal, type LawOutcome, lawsOf, type Mismatch, term } from "../pages/law.ts";
import { type HistogramSeries, histogramsOf } from "../pages/shapes.ts";

const law = lawsOf("any", "page");

/** Converts the parser's defects of these kinds to violations. */
function faults(c: Case, ...kinds: readonly FaultKind[]): Mismatch[] {
  return c.look.exposition.faults
    .filter(({ kind }) => kinds.includes(kind))
    .map(({ line, message, looksLike }) => ({
      ...complaint(`line ${line}: ${message}`, line),
      ...(looksLike === undefined ? {} : { looksLike }),
    }));
}

/** Lowers the severity of violations to a warning (W). For defects with which Prometheus still accepts the page. */
const mild = (broken: readonly Mismatch[]): Mismatch[] => broken.map((violation) => ({ ...violation, severity: "W" }));

/** Returns families without TYPE: errors for a known server, which always writes TYPE, and warnings for others. */
function untyped(c: Case): Mismatch[] {
  return faults(c, "untyped").map((violation) => {
    const [, name = ""] = /^line \d+: (\S+)/.exec(violation.left.text) ?? [];
    return isOfKnownServer(name) ? violation : { ...violation, severity: "W" as const };
  });
}

const families = (c: Case): readonly ScrapedFamily[] => [...c.look.exposition.families.values()];

const value = (sample: ScrapedSample) => term(seriesText(sample.name, sample.labels), sample.value);

function histograms(c: Case): { readonly family: ScrapedFamily; readonly series: HistogramSeries }[] {
  return families(c).flatMap((family) => histogramsOf(family).map((series) => ({ family, series })));
}

/** Matches names of values that are counted in whole numbers. */
const COUNTED =
  /(_count|_bucket|(^|[_:])(requests?|tokens?|blocks?|preemptions|drafts|queries|hits|misses|reqs|success|failure)(_total|_running|_waiting)?|_requests_total|exec_count|pending_request_count)$/;
const MEASURED =
  /(second|_us|_ms|_ns|byte|rate|ratio|perc|avg|mean|util|throughput|usage|fraction|duration|latency|per_token|delay)/;
const CONTENT_MEASURED = /(per_|avg_)/;

const isBlocks = (name: string): boolean => /^nv_trt_llm_kv_cache_block_(metrics|statistics)$/.test(name);

/** Reports whether the value must be a whole number. Counts and buckets always are; other values only if their name says so. */
function isCounted({ name, labels }: ScrapedSample, { type }: ScrapedFamily): boolean {
  if (type === "histogram" || type === "summary") return /_(count|bucket)$/.test(name);
  if (isBlocks(name)) return labels.kv_cache_block_type !== "fraction";
  if (/^nv_trt_llm_(request|inflight_batcher)_(metrics|statistics)$/.test(name)) return true;
  return COUNTED.test(name) && !MEASURED.test(name) && !CONTENT_MEASURED.test(name);
}

/** Matches names of values between 0 and 1, even if the name says "perc". */
const FRACTION =
  /(^vllm:\w*cache_usage_perc|(?<!gpu_)fraction|utilization|utilisation|hit_rate|^sglang:token_usage|^nv_cache_util|dynamo_component_gpu_cache_usage_percent|reuse_rate)$/;

function isFraction({ name, labels }: ScrapedSample): boolean {
  if (isBlocks(name)) return labels.kv_cache_block_type === "fraction";
  return FRACTION.test(name) && !/^DCGM_/.test(name);
}

/** Returns the lowest and the highest sum that the bucket counts allow. Null if a bound is negative, or if the counts fall. */
export function sumBounds({ buckets }: HistogramSeries): { readonly low: number; readonly high: number } | null {
  if ((buckets[0]?.le ?? 0) < 0) return null;
  // Without a `+Inf` bucket the sum has no upper bound.
  let [low, high, below, bound] = [
    0,
    buckets.at(-1)?.le === Number.POSITIVE_INFINITY ? 0 : Number.POSITIVE_INFINITY,
    0,
    0,
  ];
  for (const { le, value: cumulative } of buckets) {
    const here = cumulative - below;
    // Law G05 reports falling counts. They give no bounds for the sum.
    if (!(here >= 0)) return null;
    low += here * bound;
    if (here > 0) high += here * le;
    below = cumulative;
    bound = le;
  }
  return { low, high };
}

const NOT_AVAILABLE = /vllm[:_][cg]pu_prefix_cache_hit_rate$/;
const HIT_RATE_NOT_AVAILABLE = "vllm#7606: V0 shows -1 where no hit rate is available, as without prefix caching";

/** Reports whether the value is one of DCGM's four markers for "no value". As floating-point numbers all four are 2^63. */
const isDcgmBlank = ({ name, value }: ScrapedSample): boolean => name.startsWith("DCGM_FI_") && value === 2 ** 63;
const DCGM_BLANK = "gpu-monitoring-tools#92: older exporters show a value that is not supported as 9223372036854775794";

const ROUTER_MIRRORS =
  "production-stack, metrics_service/__init__.py: the router shows its engines' counters, and counts of pods, as gauges";

export const general = [
  law("G01", {
    sentence: "the text parses with a strict parser and ends in a newline",
    means: "Some scrapers accept the page, others drop the whole target.",
    looksLike: "vllm#56919: spaces in label values",
    check: (c) => [...faults(c, "syntax"), ...mild(faults(c, "lost-blank"))],
  }),
  law("G02", {
    sentence: "a series (name and label set) occurs once in a scrape",
    means: "Prometheus keeps the first and drops the others silently, or rejects the scrape.",
    looksLike: "gpustack#6218: a duplicate _created series; aibrix#1614: one per rank; several workers behind one page",
    check: (c) => faults(c, "duplicate"),
  }),
  law("G03", {
    sentence: "a family has one TYPE, before its samples, and its lines form one block; HELP and TYPE never change",
    needs: ["one scrape", "two scrapes"],
    means: "Two registries were joined, or a header line was lost. Tools then guess the type of a number.",
    check: (c) => {
      const changed =
        c.lookBefore === null
          ? []
          : families(c).flatMap((family) => {
              const before = c.lookBefore!.exposition.families.get(family.name);
              if (!before || (before.type === family.type && before.help === family.help)) return [];
              return [complaint(`TYPE or HELP of ${family.name} differs from that of the scrape before`, 1)];
            });
      return [...faults(c, "family"), ...untyped(c), ...changed];
    },
  }),
  law("G04", {
    sentence: 'no NaN and no ±Inf, except le="+Inf" and the quantiles of an empty summary',
    means: "A value is the result of 0 divided by 0, not a number.",
    check: (c) =>
      eachSample(c.look.exposition, (sample, { type }): Mismatch[] => {
        if (isDcgmBlank(sample))
          return [{ ...complaint(`${value(sample).text} is DCGM's blank`, 0), known: DCGM_BLANK }];
        if (Number.isFinite(sample.value)) return [];
        if (type === "summary" && sample.labels.quantile !== undefined && Number.isNaN(sample.value)) return [];
        return [complaint(`${value(sample).text} is ${numberText(sample.value)}`, sample.value)];
      }),
  }),
  law("G05", {
    sentence: "the bucket counts of a histogram do not fall with rising le",
    means: "Buckets count the values between two bounds, not up to a bound, or were read while they changed.",
    check: (c) => faults(c, "monotone"),
  }),
  law("G06", {
    sentence: 'every histogram has le="+Inf", _sum and _count, and the +Inf bucket equals _count',
    means: "histogram_quantile() over it is wrong or empty.",
    looksLike: "gpustack#6218",
    check: (c) => faults(c, "infinity"),
  }),
  law("G07", {
    sentence: "a histogram without observations has sum 0 and empty buckets",
    means: "The histogram was not initialised, or only partly reset.",
    check: (c) =>
      histograms(c).flatMap(({ series: { count, sum, buckets } }) => {
        if (count === null || count.value !== 0) return [];
        const nothing = term("0, as nothing was observed", 0);
        return [sum && equal(value(sum), nothing), ...buckets.map(({ sample }) => equal(value(sample), nothing))];
      }),
  }),
  law("G08", {
    sentence: "the sum of a histogram is between the minimum and the maximum that its buckets allow",
    tolerance: "1e-9 relative",
    means: "Sum and buckets are from different observations: milliseconds instead of seconds, or a wrong sum.",
    check: (c) =>
      histograms(c).flatMap(({ series }) => {
        const bounds = sumBounds(series);
        if (bounds === null || series.sum === null || series.buckets.length === 0) return [];
        const slack = 1e-9 * Math.max(Math.abs(series.sum.value), bounds.low) + 1e-9;
        const sum = value(series.sum);
        return [
          atLeast(sum, term("the buckets' lower bounds", bounds.low), slack),
          Number.isFinite(bounds.high) ? atMost(sum, term("the buckets' upper bounds", bounds.high), slack) : null,
        ];
      }),
  }),
  law("G09", {
    sentence:
      "the bounds of a histogram are the same for all label sets and at all times (W: equal to those of the known version)",
    needs: ["one scrape", "two scrapes"],
    means: "Sums over label sets and rates over time mix different buckets, or the page is from another version.",
    looksLike: "vllm#8178: drift between versions",
    check: (c) => families(c).flatMap((family) => boundsOf(family, c)),
  }),
  law("G14", {
    sentence: "counts of requests, tokens and blocks are whole numbers of at least 0; no counter is below 0",
    tolerance: "1e-9",
    means: "A count is an average, or a number was subtracted twice.",
    check: (c) =>
      eachSample(c.look.exposition, (sample, family): LawOutcome[] => {
        if (!Number.isFinite(sample.value)) return [];
        if (!isCounted(sample, family)) return family.type === "counter" ? [atLeast(value(sample), term("0", 0))] : [];
        const whole = Math.max(0, Math.round(sample.value));
        return [equal(value(sample), term("a whole number of at least 0", whole), 1e-9 * Math.max(1, whole))];
      }),
  }),
  law("G15", {
    sentence: "shares are within [0, 1], even if their names say percent",
    means: "The value is a percentage or a number of blocks, not a share.",
    looksLike: "max − used as the fraction of KV blocks",
    check: (c) =>
      eachSample(c.look.exposition, (sample, { type }): LawOutcome[] => {
        if (type === "histogram" || !isFraction(sample)) return [];
        if (sample.value === -1 && NOT_AVAILABLE.test(sample.name) && c.versionOf("vllm") === "V0")
          return [{ ...atLeast(value(sample), term("0", 0))!, known: HIT_RATE_NOT_AVAILABLE }];
        return [atMost(value(sample), term("1", 1)), atLeast(value(sample), term("0", 0))];
      }),
  }),
  law("G18", {
    sentence: "counters end in _total, and other types do not, except for known families",
    severity: "W",
    means: "Tools that choose rate() by the name treat a gauge as a counter, or miss a counter.",
    looksLike: "dynamo#3035: a gauge named _total; sglang#10672: gauges that should be counters",
    check: (c) =>
      families(c).flatMap(({ name, type, samples }): Mismatch[] => {
        const counter = type === "counter";
        // In OpenMetrics, the family of a counter has the name without the ending.
        if (counter && c.look.exposition.format === "openmetrics") return [];
        const total = /_total$/.test(c.look.page.toPageNames(name));
        if (type === "untyped" || counter === total || samples.length === 0) return [];
        const known = counter
          ? countersWithoutTotal.some((pattern) => pattern.test(name))
          : totalsThatAreNone.includes(name);
        if (known) return [];
        const text = `${name} is a ${type}, and its name ${counter ? "does not end" : "ends"} in _total`;
        const isMirror = type === "gauge" && name.startsWith("vllm_router:");
        return [isMirror ? { ...complaint(text, 1), known: ROUTER_MIRRORS } : complaint(text, 1)];
      }),
  }),
];

const boundsText = (series: HistogramSeries) => series.buckets.map(({ le }) => numberText(le)).join(" ");

/**
 * Reports whether an operator may have set the bounds with vLLM's `--custom-histogram-buckets`. It changes all histograms that
 * share a list of bounds.
 */
function areCustom(name: string, current: string, c: Case): boolean {
  const version = c.versionOf("vllm");
  if (!name.startsWith("vllm:") || version === "V0" || version === "V1 to 0.11") return false;
  return sharingBounds(name).every((other) => {
    const family = c.look.exposition.families.get(other);
    const [first] = family ? histogramsOf(family) : [];
    return first === undefined || !other.startsWith("vllm:") || boundsText(first) === current;
  });
}

/** Returns the bounds of the buckets without +Inf. */
const finiteBounds = ({ buckets }: HistogramSeries): number[] =>
  buckets.map(({ le }) => le).filter((le) => le !== Number.POSITIVE_INFINITY);

/** True if the page may be an excerpt, and these bounds are a part of the bounds of a known version. */
function areLeftOut(series: HistogramSeries, known: readonly (readonly number[])[], c: Case): boolean {
  if (!c.look.exposition.mayBeExcerpt) return false;
  const bounds = finiteBounds(series);
  return known.some((version) => bounds.length < version.length && bounds.every((le) => version.includes(le)));
}

/** True if the bounds differ by more than left-out buckets. In an excerpt, missing buckets are no evidence. */
function areOther(a: HistogramSeries, b: HistogramSeries, known: readonly (readonly number[])[], c: Case): boolean {
  if (boundsText(a) === boundsText(b)) return false;
  if (!c.look.exposition.mayBeExcerpt) return true;
  return a.buckets.length === b.buckets.length && !(areLeftOut(a, known, c) && areLeftOut(b, known, c));
}

function boundsOf(family: ScrapedFamily, c: Case): LawOutcome[] {
  const [first, ...others] = histogramsOf(family);
  if (first === undefined || first.buckets.length === 0) return [];
  const current = boundsText(first);
  const isOfOwner = c.look.page.mapped?.families.has(family.name) === true;
  const known = isOfOwner ? [] : boundsKnown(family.name, c.versionOf("vllm"));
  const isPart = areLeftOut(first, known, c);
  const differ = (expected: string, severity?: "W"): Mismatch => ({
    ...complaint(`the bounds of ${family.name} (${current}) are not ${expected}`, 1),
    ...(severity ? { severity } : {}),
  });
  const outcomes: LawOutcome[] = others
    .filter((series) => areOther(first, series, known, c))
    .map((series) => differ(seriesText("those of ", series.labels)));
  const before = c.lookBefore?.exposition.families.get(family.name);
  const [firstBefore] = before ? histogramsOf(before) : [];
  if (firstBefore && areOther(first, firstBefore, known, c)) outcomes.push(differ("those before"));
  const isTorn = c.look.exposition.excerpt?.torn.has(family.name) === true;
  const bounds = finiteBounds(first);
  const isOf = (version: readonly number[]) =>
    isTorn ? bounds.every((le) => version.includes(le)) : bounds.join() === version.join();
  if (known.length > 0 && !isPart && !known.some(isOf) && !areCustom(family.name, current, c))
    outcomes.push(differ(`those of the known version (${known[0]!.join(" ")})`, "W"));
  return outcomes;
}
