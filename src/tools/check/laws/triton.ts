/** The laws of Triton's core, per model and version. Family names are given without the prefix `nv_`. N01–N12. */
import type { Case } from "../pages/case.ts";
import {
  atLeast,
  atMost,
  equal,
  type LawOutcome,
  lawsOf,
  minus,
  NotCheckable,
  plus,
  type Term,
  term,
} from "../pages/law.ts";
import type { Where } from "../pages/reading.ts";

const law = lawsOf("triton", "group");
const page = lawsOf("triton", "page");

const REASONS = ["BACKEND", "CANCELED", "OTHER", "REJECTED"];
const DURATIONS = ["queue", "compute_input", "compute_infer", "compute_output"].map(
  (part) => `inference_${part}_duration_us`,
);
const REQUEST_DURATION = "inference_request_duration_us";
/**
 * Microseconds per request by which the parts may exceed the whole, because all are cut to whole microseconds. Recordings of Triton 2.51
 * differ by less.
 */
const CUT_US = 4;

/** Returns the name of the summary that measures the same time as the duration counter. */
const summaryOf = (counter: string): string => counter.replace("_duration_us", "_summary_us");

/** The family is absent after the model was unloaded. */
const successes = ({ now }: Case): Term => now.get("inference_request_success");
const failures = ({ now }: Case): Term => now.orZero("inference_request_failure");
/**
 * Returns the cache hits. Models without a response cache have no such series. Not checkable if an excerpt has other cache
 * series but not this one.
 */
const hits = ({ now }: Case): Term => {
  const isCached = CACHE.some((name) => now.samples(`cache_${name}_per_model`).length > 0);
  return isCached ? now.get("cache_num_hits_per_model") : now.orZero("cache_num_hits_per_model");
};
const CACHE = ["num_misses", "hit_duration", "miss_duration", "hit_summary", "miss_summary"];

function isDecoupled({ now, known }: Case): boolean {
  const { decoupled } = known.parameters;
  return decoupled === true || (decoupled?.includes(now.group.model ?? "") ?? false);
}

function isEnsemble(c: Case): boolean {
  const { ensembles } = c.known.parameters;
  const { model = "" } = c.now.group;
  return ensembles ? ensembles.includes(model) : model === "ensemble" || surroundsExecutor(c);
}

/** The models before and after the executor in TensorRT-LLM's example repository, and its script, which is not an ensemble. */
const STEPS = ["preprocessing", "postprocessing"];
const SCRIPT = "tensorrt_llm_bls";
/**
 * Maximum number of queue microseconds per request by which a model counts as an ensemble. Ensembles have no queue: recordings of Triton
 * 2.51 show 1 to 5 µs per request, and at least 36 µs for other models.
 */
const ENSEMBLE_QUEUE_US = 20;

/**
 * Recognises TensorRT-LLM's ensemble under any name: the only model apart from the executor and its steps whose requests did
 * not queue.
 */
function surroundsExecutor(c: Case): boolean {
  const { now, page } = c;
  const executors = page.samples("nv_trt_llm_request_metrics").map(({ labels }) => labels.model);
  const others = new Set(page.samples("nv_inference_request_success").map(({ labels }) => labels.model));
  if (executors.length === 0 || !STEPS.every((step) => others.has(step))) return false;
  for (const name of [...STEPS, SCRIPT, ...executors]) others.delete(name);
  if (others.size !== 1 || !others.has(now.group.model)) return false;
  const done = successes(c).value;
  const queuedUs = now.maybe("inference_queue_duration_us");
  return done > 0 && queuedUs !== null && queuedUs.value <= ENSEMBLE_QUEUE_US * done;
}

/** Reports whether the model's backend is TensorRT-LLM. */
const ownsExecutor = ({ page, now }: Case): boolean =>
  page.samples("nv_trt_llm_request_metrics").some(({ labels }) => labels.model === now.group.model);
const UNREPORTED =
  "tensorrtllm_backend#582: a request that the executor does not take is answered with an error, and neither a success nor a failure";

/**
 * Reports whether the page has any duration counter. If only some are missing, they were lost, and latencies are still
 * counted.
 */
const countsLatencies = ({ now }: Case): boolean =>
  [REQUEST_DURATION, ...DURATIONS].some((name) => now.samples(name).length > 0);

/** Throws if `counter_latencies=false` froze the counters. If the counters do count, the page only leaves out the latencies. */
function needCounters(c: Case): void {
  if (!countsLatencies(c) && successes(c).value === 0)
    throw new NotCheckable("counter_latencies is off, so the counters stay at 0");
}

interface Statistics {
  readonly name: string;
  readonly version: string;
  readonly inference_count?: string | number;
  readonly execution_count?: string | number;
  readonly inference_stats?: { readonly success?: { readonly count?: string | number; readonly ns?: string | number } };
}

function statisticsOf({ look, now }: Case): Statistics {
  const all = (look.tritonStats as { model_stats?: readonly Statistics[] } | null)?.model_stats;
  if (!Array.isArray(all)) throw new NotCheckable("needs /v2/models/stats (--triton URL)");
  const modelStatistics = all.find(({ name, version }) => name === now.group.model && version === now.group.version);
  if (!modelStatistics) throw new NotCheckable(`the statistics do not contain ${now.group.model}`);
  return modelStatistics;
}

/** Returns the quantiles of each summary of this model, sorted. */
function summaries({ now }: Case) {
  const names = [...now.exposition.families.values()].filter(
    ({ type, name }) => type === "summary" && name.startsWith("nv_"),
  );
  return names.flatMap(({ name }) => {
    const quantiles = now.samples(name.slice("nv_".length));
    const sorted = quantiles
      .map(({ labels, value }) => ({ q: Number(labels.quantile), value }))
      .sort((a, b) => a.q - b.q);
    return sorted.length > 0 ? [{ name, sorted }] : [];
  });
}

export const tritonLaws = [
  law("N01", {
    sentence:
      "inference_count ≥ inference_request_success − cache hits; = if every batch size is one and there is no cache",
    needs: ["one scrape", "--batch-of-one"],
    means: "More requests succeeded than inferences were made: failures count as successes.",
    looksLike: "server#8521 and server#7713: failures counted as successes",
    check: (c) => {
      needCounters(c);
      const inferences = c.now.get("inference_count");
      const expected = minus(successes(c), hits(c));
      const exact = c.known.parameters.batchOfOne === true && hits(c).value === 0;
      return exact ? equal(inferences, expected) : atLeast(inferences, expected);
    },
  }),
  law("N02", {
    sentence: "inference_exec_count ≤ inference_count + failures (not for ensembles)",
    means:
      "More executions than inferences: a batch is one execution. (Failed executions count, their inferences do not.)",
    looksLike: "tensorrtllm_backend#667: exec_count 11041 against 232",
    check: (c) => {
      if (isEnsemble(c)) throw new NotCheckable(`${c.now.group.model} is an ensemble`);
      return atMost(c.now.get("inference_exec_count"), plus(c.now.get("inference_count"), failures(c)));
    },
  }),
  law("N03", {
    sentence: "queue + compute_input + compute_infer + compute_output ≤ request duration (not for decoupled models)",
    needs: ["one scrape", "--decoupled"],
    tolerance: `${CUT_US} µs per request`,
    means: "The parts of the requests took longer than the requests.",
    looksLike: "server#8463: a decoupled model's duration ends with the hand-over",
    check: (c) => {
      if (isDecoupled(c)) throw new NotCheckable(`${c.now.group.model} is decoupled`);
      const parts = plus(...DURATIONS.map((name) => c.now.get(name)));
      const whole = c.now.get(REQUEST_DURATION);
      const toleranceUs = CUT_US * Math.max(0, successes(c).value + failures(c).value);
      if (parts.value > whole.value + toleranceUs && isEnsemble(c))
        throw new NotCheckable(`${c.now.group.model} adds up its steps, some of which run at the same time`, "always");
      return atMost(parts, whole, toleranceUs);
    },
  }),
  law("N04", {
    sentence: "if no request succeeded, all duration counters are 0",
    means: "Time was counted for requests that did not succeed.",
    check: (c) => {
      needCounters(c);
      const done = successes(c);
      if (done.value !== 0) return null;
      return [REQUEST_DURATION, ...DURATIONS].map((name) => equal(c.now.get(name), term("0, as nothing succeeded", 0)));
    },
  }),
  law("N05", {
    sentence:
      "inference_request_failure has the reasons BACKEND, CANCELED, OTHER and REJECTED as soon as the model is loaded",
    means: "rate() misses the first failure of a reason whose series did not exist with value 0.",
    check: (c) => {
      const { now } = c;
      c.needWhole();
      const present = now.samples("inference_request_failure").map(({ labels }) => labels.reason!);
      if (present.length === 0) throw new NotCheckable(`no ${now.text("inference_request_failure")} here`);
      const missing = REASONS.filter((reason) => !present.includes(reason));
      return equal(term(`reasons missing (${missing.join(", ")})`, missing.length), term("0", 0));
    },
  }),
  law("N06", {
    sentence: "inference_pending_request_count ≥ 0, 0 at rest, always 0 for ensembles",
    needs: ["one scrape", "rest"],
    means: "Requests are pending that no client sent, or an ensemble counts those of its steps.",
    looksLike: "server#6494: wrong for ensembles",
    check: (c) => {
      const pending = c.now.get("inference_pending_request_count");
      if (c.rest) return equal(pending, term("0, at rest", 0));
      return isEnsemble(c) ? equal(pending, term("0, as an ensemble has no queue", 0)) : atLeast(pending, term("0", 0));
    },
  }),
  law("N07", {
    sentence:
      "summaries of request, queue and compute times: count = inference_request_success, of compute times less the cache hits; sum = the counter of the same time",
    means: "Summary and counters count different requests.",
    looksLike: "server#8125: counters 0 while the summary counts",
    check: (c) => {
      const { now } = c;
      // Models with a response cache have no summary of whole requests.
      const summarised = [REQUEST_DURATION, ...DURATIONS].filter(
        (name) => now.maybe(`${summaryOf(name)}_count`) !== null,
      );
      if (summarised.length === 0) throw new NotCheckable(`no ${now.text(summaryOf(REQUEST_DURATION))} here`);
      needCounters(c);
      return summarised.flatMap((name) => {
        const { count, sum } = now.of(summaryOf(name));
        const expected = name.includes("compute") ? minus(successes(c), hits(c)) : successes(c);
        // Exact, because both sides are whole microseconds far below 2^53.
        return [equal(count, expected), equal(sum, now.get(name))];
      });
    },
  }),
  law("N08", {
    sentence: "the quantiles of a summary do not fall with rising q; either all or none of them are Nan",
    severity: "W",
    means: "A higher quantile is smaller than a lower one.",
    check: (c) => {
      const all = summaries(c);
      if (all.length === 0) throw new NotCheckable("no summaries here");
      return all.flatMap(({ name, sorted }) => {
        const empty = sorted.filter(({ value }) => Number.isNaN(value)).length;
        const mixed = empty > 0 && empty < sorted.length;
        const rising = sorted.slice(1).map((upper, i) => {
          const lower = sorted[i]!;
          return upper.value < lower.value
            ? atLeast(term(`${name} q=${upper.q}`, upper.value), term(`q=${lower.q}`, lower.value))
            : null;
        });
        return [mixed ? equal(term(`${name}: quantiles that are Nan`, empty), term("0 or all", 0)) : null, ...rising];
      });
    },
  }),
  law("N09", {
    sentence: "at rest inference_first_response_histogram_ms count ≤ successes + failures; for decoupled models always",
    needs: ["rest", "--decoupled"],
    means: "More first responses were observed than there were requests.",
    looksLike: "PR#7694 and vllm_backend PR#61: bucket values are not tested",
    check: (c) => {
      const first = c.now.of("inference_first_response_histogram_ms").count;
      const ended = plus(successes(c), failures(c));
      // The first response may be sent before its request is counted. An LLM backend has removed the request from the pending
      // count by then.
      if (!isDecoupled(c)) c.needRest();
      const broken = atMost(first, ended);
      return broken && ownsExecutor(c) ? { ...broken, known: UNREPORTED } : broken;
    },
  }),
  law("N10", {
    sentence: "with counter_latencies=false the other counters also stay at 0, as on the real server",
    severity: "I",
    means: "Triton 2.51 freezes success, count, exec_count and failure with the latencies; this server does not.",
    check: (c) => {
      if (countsLatencies(c)) throw new NotCheckable("counter_latencies is on");
      if (c.look.exposition.mayBeExcerpt && successes(c).value > 0)
        throw new NotCheckable("the text may leave out the latencies, because it has no Content-Type");
      return ["inference_request_success", "inference_count", "inference_exec_count", "inference_request_failure"].map(
        (name) => equal(c.now.get(name), term("0", 0)),
      );
    },
  }),
  law("N11", {
    sentence:
      "/v2/models/stats and the metrics agree on successes, inferences and executions, until a loaded model is loaded again; success time ≥ request duration",
    needs: ["rest", "stats"],
    means: "Two counts of the same requests differ.",
    check: (c) => {
      const stats = statisticsOf(c);
      c.needRest();
      const success = stats.inference_stats?.success;
      const pairs = [
        [term("stats: inference_stats.success.count", Number(success?.count ?? 0)), successes(c)],
        [term("stats: inference_count", Number(stats.inference_count ?? 0)), c.now.get("inference_count")],
        [term("stats: execution_count", Number(stats.execution_count ?? 0)), c.now.get("inference_exec_count")],
      ] as const;
      if (pairs.every(([fromStatistics, fromMetrics]) => fromStatistics.value < fromMetrics.value))
        throw new NotCheckable(
          `all metrics of ${c.now.group.model} are ahead of its statistics, which start again at 0 when a loaded model is loaded again`,
          "always",
        );
      return [
        ...pairs.map(([fromStatistics, fromMetrics]) => equal(fromStatistics, fromMetrics)),
        atLeast(term("stats: success µs", Number(success?.ns ?? 0) / 1000), c.now.get(REQUEST_DURATION)),
      ];
    },
  }),
  page("N12", {
    sentence: "used memory ≤ total memory, for GPU, CPU and the pinned pool; utilisation within [0, 1]",
    means: "More memory is in use than exists, or a share is a percentage.",
    check: (c) => {
      const outcomes: LawOutcome[] = [];
      for (const kind of ["gpu_memory", "cpu_memory", "pinned_memory_pool"]) {
        for (const { labels, value } of c.now.samples(`${kind}_used_bytes`)) {
          const where: Where = labels.gpu_uuid === undefined ? {} : { gpu_uuid: labels.gpu_uuid };
          const total = c.now.maybe(`${kind}_total_bytes`, where);
          if (total) outcomes.push(atMost(term(c.now.text(`${kind}_used_bytes`, where), value), total));
        }
      }
      for (const name of ["gpu_utilization", "cpu_utilization"]) {
        for (const { labels, value } of c.now.samples(name)) {
          const share = term(c.now.text(name, labels), value);
          outcomes.push(atMost(share, term("1", 1)), atLeast(share, term("0", 0)));
        }
      }
      if (outcomes.length === 0) throw new NotCheckable("no memory or utilisation here");
      return outcomes;
    },
  }),
];
