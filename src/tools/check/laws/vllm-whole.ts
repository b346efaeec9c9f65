/**
 * vLLM's laws on configuration, adapters, speculation, refusals, HTTP, several engines, and on times as integrals of gauges.
 * V32–V43.
 */
import type { Case } from "../pages/case.ts";
import {
  atLeast,
  atMost,
  complaint,
  equal,
  type LawOutcome,
  lawsOf,
  NotCheckable,
  plus,
  type Term,
  term,
} from "../pages/law.ts";
import { noEngineAborts } from "./vllm-counts.ts";
import { engines } from "./vllm-gauges.ts";

const group = lawsOf("vllm", "group");
const page = lawsOf("vllm", "page");

const FIRST_REASONS = ["stop", "length", "abort"];
const REASONS = ["stop", "length", "abort", "error", "repetition"];
/** Minimum number of scrapes under load of a window. With fewer, the integral of a gauge is too inexact. */
const SAMPLES_LEAST = 200;
const SAMPLED_TOLERANCE = 0.05;

/**
 * Integral of a gauge over a window that starts and ends at rest. The server may also be idle within it. `samples`: number of
 * scrapes under load. `sum` and `squares` add up the gauge and its square.
 */
const windowFrom = ({ now, look }: Case) => ({
  startQueueS: now.get("request_queue_time_seconds_sum").value,
  startInferenceS: now.get("request_inference_time_seconds_sum").value,
  startPreemptions: now.get("num_preemptions_total").value,
  ...{ lastAtS: look.atS, last: 0, integral: 0, samples: 0, sum: 0, squares: 0 },
});
type Window = ReturnType<typeof windowFrom>;

/** Adds this scrape to the window. Returns the window if it has just ended and had enough scrapes, else null. */
function windowEnding(c: Case, gauge: number): Window | null {
  const underway = c.now.get("num_requests_running").value + c.now.get("num_requests_waiting").value;
  const open = c.lookBefore === null ? undefined : (c.memory.get("window") as Window | undefined);
  if (open) {
    // The gauge moves between scrapes, so take the mean of both ends.
    open.integral += ((open.last + gauge) / 2) * (c.look.atS - open.lastAtS);
    open.lastAtS = c.look.atS;
    open.last = gauge;
    if (underway > 0) open.samples++;
    open.sum += gauge;
    open.squares += gauge * gauge;
  } else c.memory.delete("window");
  if (underway > 0) return null;
  const isLong = open !== undefined && open.samples >= SAMPLES_LEAST;
  if (open && !isLong && open.integral > 0) return null;
  c.memory.set("window", windowFrom(c));
  return isLong ? open : null;
}

/** See law V18 for the source. */
const SINCE_ZERO = "the engine aborted requests, whose times may count from the start of the machine's clock";
const NO_WINDOW = `no window of ${SAMPLES_LEAST} scrapes from rest to rest`;
const LITTLES_TOLERANCE = `5 %, or three standard errors of the samples, with at least ${SAMPLES_LEAST} busy scrapes`;

/**
 * Compares an integral with the counted time. Larger is always wrong; smaller only if no client disconnected, because times of
 * such requests reach no histogram.
 */
function littles(
  { integral, samples, sum, squares }: Window,
  integralName: string,
  right: Term,
  smallerIsWrong: boolean,
): LawOutcome {
  const left = term(integralName, integral);
  const mean = sum / samples;
  const spread = Math.sqrt(Math.max(0, squares / samples - mean * mean));
  const sampled = mean === 0 ? 0 : (3 * spread) / mean / Math.sqrt(samples);
  const tolerance = Math.max(SAMPLED_TOLERANCE, sampled) * Math.max(left.value, right.value);
  return atLeast(left, right, tolerance) ?? (smallerIsWrong ? equal(left, right, tolerance) : null);
}

const SERIES_WITH_THE_FIRST =
  "vLLM 0.33 rust/src/metrics/src/request.rs: the family creates the series of a reason when the first request ends with it";

export const whole = [
  group("V32", {
    sentence:
      "request_success_total has all five finished_reason series from the start (before 0.30 at least stop, length, abort)",
    severity: "W",
    means: "rate() misses the first finished request of a reason whose series did not exist with value 0.",
    looksLike: "vllm#8178: metrics vanish between versions",
    check: (c) => {
      const { now } = c;
      c.needWhole();
      if (c.isMapped("vllm")) throw new NotCheckable("the custom engine has other reasons");
      const present = now.samples("request_success_total").map(({ labels }) => labels.finished_reason!);
      if (present.length === 0) throw new NotCheckable(`no ${now.text("request_success_total")} here`);
      const version = c.versionOf("vllm");
      const reasons = version === "0.30" || version === "vllm-rs" ? REASONS : FIRST_REASONS;
      const missing = reasons.filter((reason) => !present.includes(reason));
      // V0 shows only reasons that have occurred. In an excerpt without other evidence, the labels can still show that it is
      // V0.
      const isLikeV0 = now.group.engine === undefined && now.group.model_name !== undefined;
      if (isLikeV0 && missing.length > 0 && c.look.exposition.mayBeExcerpt && !c.isVersionTold("vllm"))
        throw new NotCheckable("the version is not known, so the required reasons are not either");
      const broken = equal(term(`reasons missing (${missing.join(", ")})`, missing.length), term("0", 0));
      return broken && version === "vllm-rs" ? { ...broken, known: SERIES_WITH_THE_FIRST } : broken;
    },
  }),
  group("V33", {
    sentence:
      "a client that disconnects is not counted as finished: Δ e2e count = answered requests (or those and the aborts), and no resources stay in use",
    needs: ["two scrapes", "rest", "truth"],
    means: "A cancelled request was counted as finished, or its resources are still in use.",
    looksLike: "vllm#31503, vllm#55634",
    check: (c) => {
      const answered = c.truthDelta("finished");
      const left = c.truthDelta("clientAborts");
      if (left.value === 0) throw new NotCheckable("no client left between the scrapes");
      c.needRest();
      const ends = c.delta("e2e_request_latency_seconds_count");
      const counted = c.delta("request_success_total", { finished_reason: "abort" });
      // A build may count disconnects as aborts, if both families do so.
      const expected = counted.value === left.value ? plus(answered, left) : answered;
      return [
        equal(ends, expected),
        equal(c.now.get("num_requests_running"), term("0, at rest", 0)),
        equal(c.now.get("kv_cache_usage_perc"), term("0, at rest", 0)),
      ];
    },
  }),
  group("V34", {
    sentence:
      "cache_config_info: one series per engine, value 1, integers in block_size and num_gpu_blocks, constant labels",
    needs: ["one scrape", "two scrapes"],
    means: "Endpoint pickers read the block size and the pool size from it, and cannot work without them.",
    check: (c) => {
      const infos = c.now.samples("cache_config_info");
      if (infos.length === 0) throw new NotCheckable("no vllm:cache_config_info here");
      const text = c.now.text("cache_config_info");
      const numbers = ["block_size", "num_gpu_blocks"].map((label) => {
        const whole = /^\d+$/.test(infos[0]!.labels[label] ?? "");
        return whole ? null : complaint(`${label} of ${text} is not a whole number`, Number.NaN);
      });
      const labels = JSON.stringify(Object.entries(infos[0]!.labels).sort());
      const before = c.memory.get("labels");
      if (infos.length === 1) c.memory.set("labels", labels);
      const same = c.lookBefore === null || before === undefined || before === labels;
      return [
        equal(term(`series of ${text}`, infos.length), term("one", 1)),
        ...infos.map(({ value }) => equal(term(text, value), term("1", 1))),
        ...numbers,
        same ? null : complaint(`the labels of ${text} differ from those of the scrape before`, 1),
      ];
    },
  }),
  page("V35", {
    sentence:
      "lora_requests_info: the newest series names at most max_lora running adapters, no empty name, no time in the future",
    means: "More adapters are listed as running than can run.",
    check: (c) => {
      const all = c.now.samples("lora_requests_info");
      if (all.length === 0) throw new NotCheckable("no vllm:lora_requests_info here");
      const newest = all.reduce((latest, sample) => (sample.value >= latest.value ? sample : latest));
      const list = newest.labels.running_lora_adapters ?? "";
      const names = list === "" ? [] : list.split(",");
      const most = Number(newest.labels.max_lora ?? c.known.parameters.maxLoras ?? Number.NaN);
      // Scrape times of files may count from any start. They cannot show that a time is in the future.
      const nowS = c.look.atS > 1e9 ? c.look.atS + 60 : Number.POSITIVE_INFINITY;
      return [
        Number.isNaN(most) ? null : atMost(term("running adapters", names.length), term("max_lora", most)),
        equal(term("adapters without a name", names.filter((name) => name.trim() === "").length), term("0", 0)),
        atMost(term("time of vllm:lora_requests_info", newest.value), term("the time of the scrape", nowS)),
      ];
    },
  }),
  group("V36", {
    sentence:
      "speculation: accepted ≤ draft tokens; counts per position do not rise and add up to the accepted tokens; tokens ≥ accepted + drafts",
    means: "More draft tokens were accepted than drafted, or positions were accepted out of order.",
    check: ({ now }) => {
      const drafts = now.get("spec_decode_num_drafts_total");
      const accepted = now.get("spec_decode_num_accepted_tokens_total");
      const perPosition = now
        .samples("spec_decode_num_accepted_tokens_per_pos_total")
        .map(({ labels, value }) => ({ position: Number(labels.position), value }))
        .sort((a, b) => a.position - b.position)
        .map(({ position, value }) => term(`accepted at position ${position}`, value));
      return [
        atMost(accepted, now.get("spec_decode_num_draft_tokens_total")),
        ...perPosition.map((positionCount, i) =>
          i === 0 ? atMost(positionCount, drafts) : atMost(positionCount, perPosition[i - 1]!),
        ),
        perPosition.length === 0 ? null : equal(plus(...perPosition), accepted),
        atLeast(now.get("generation_tokens_total"), plus(accepted, drafts)),
      ];
    },
  }),
  page("V37", {
    sentence: "a request refused at admission adds to admission_rejections_total and to no other counter of the engine",
    needs: ["two scrapes", "truth"],
    means: "A refused request was counted in the engine, or its refusal was not counted.",
    check: (c) => {
      const refused = c.truthDelta("refused");
      const rejected = c.delta("admission_rejections_total");
      const outcomes: LawOutcome[] = [equal(rejected, refused)];
      if (c.truthDelta("requests").value !== refused.value) return outcomes;
      for (const name of [
        "prompt_tokens_total",
        "generation_tokens_total",
        "request_success_total",
        "prefix_cache_queries_total",
      ]) {
        outcomes.push(equal(c.delta(name), term("0, as all were refused", 0)));
      }
      return outcomes;
    },
  }),
  group("V38", {
    sentence: "engine_sleep_state: exactly one of awake, weights_offloaded, discard_all is 1",
    means: "The engine is reported as asleep and awake, or as neither.",
    check: ({ now }) => {
      const states = now.samples("engine_sleep_state");
      if (states.length === 0) throw new NotCheckable(`no ${now.text("engine_sleep_state")} here`);
      const odd = states.filter(({ value }) => value !== 0 && value !== 1).length;
      return [
        equal(now.get("engine_sleep_state"), term("one state", 1)),
        equal(term("states that are neither 0 nor 1", odd), term("0", 0)),
      ];
    },
  }),
  page("V39", {
    sentence: "http_requests_total of /v1 with 2xx ≥ finished requests − requests under way",
    severity: "W",
    tolerance: "requests under way",
    means:
      "More requests finished than were answered. Finished requests are counted twice, or requests do not come through HTTP.",
    check: (c) => {
      const answered = c.page
        .samples("http_requests_total", { status: "2xx" })
        .filter(({ labels }) => labels.handler?.startsWith("/v1/"));
      if (answered.length === 0) throw new NotCheckable("no http_requests_total of /v1 here");
      const all = term(
        'http_requests_total{handler=~"/v1/.*",status="2xx"}',
        answered.reduce((sum, { value }) => sum + value, 0),
      );
      const underway = plus(c.now.get("num_requests_running"), c.now.get("num_requests_waiting"));
      return atLeast(all, c.now.get("request_params_n_count"), underway.value + 1);
    },
  }),
  page("V40", {
    sentence:
      "with several engines, every family with an engine label has a series for each engine, and num_gpu_blocks is a multiple of their number",
    means: "An engine is missing from some families: sums over engines and comparisons per engine are wrong.",
    looksLike: "aibrix#1614",
    check: (c) => {
      const all = new Set(c.now.samples("num_requests_running").map(({ labels }) => labels.engine ?? ""));
      if (all.size < 2) throw new NotCheckable("one engine");
      c.needWhole();
      const outcomes: LawOutcome[] = [];
      for (const [name, samples] of c.look.exposition.byName) {
        if (!name.startsWith(c.now.prefix)) continue;
        const here = new Set(samples.flatMap(({ labels }) => (labels.engine === undefined ? [] : [labels.engine])));
        // This family has one series for all engines of an API server.
        if (here.size === 0 || name === `${c.now.prefix}cache_config_info`) continue;
        outcomes.push(equal(term(`engines in ${name}`, here.size), term("engines", all.size)));
      }
      const blocks = Number(c.now.samples("cache_config_info")[0]?.labels.num_gpu_blocks ?? Number.NaN);
      const rest = blocks % engines(c);
      return [
        ...outcomes,
        Number.isNaN(rest) ? null : equal(term("num_gpu_blocks modulo engines", rest), term("0", 0)),
      ];
    },
  }),
  group("V41", {
    sentence: "∫ (running + waiting) dt = Δ queue time + Δ inference time, from rest to rest",
    severity: "W",
    needs: ["window", "clean"],
    tolerance: LITTLES_TOLERANCE,
    means:
      "Time of requests is missing in the histograms, or the gauges are stale. (Clients that disconnected make the left side larger.)",
    looksLike: "sglang#4244: stale gauges",
    check: (c) => {
      const gauge = c.now.get("num_requests_running").value + c.now.get("num_requests_waiting").value;
      const window = windowEnding(c, gauge);
      if (window === null) throw new NotCheckable(NO_WINDOW);
      if (!noEngineAborts(c)) throw new NotCheckable(SINCE_ZERO);
      const queueS = c.now.get("request_queue_time_seconds_sum").value - window.startQueueS;
      const inferenceS = c.now.get("request_inference_time_seconds_sum").value - window.startInferenceS;
      const counted = term("Δ queue + Δ inference seconds", queueS + inferenceS);
      return littles(window, "∫ (running + waiting) dt", counted, c.clean);
    },
  }),
  group("V42", {
    sentence: "∫ running dt = Δ inference time, from rest to rest; the time is larger with preemptions",
    severity: "W",
    needs: ["window", "clean"],
    tolerance: LITTLES_TOLERANCE,
    means: "Requests ran without being counted as running, or the other way round.",
    check: (c) => {
      const window = windowEnding(c, c.now.get("num_requests_running").value);
      if (window === null) throw new NotCheckable(NO_WINDOW);
      if (!noEngineAborts(c)) throw new NotCheckable(SINCE_ZERO);
      if (c.now.get("num_preemptions_total").value > window.startPreemptions)
        throw new NotCheckable("requests were preempted");
      const inferenceS = c.now.get("request_inference_time_seconds_sum").value - window.startInferenceS;
      return littles(window, "∫ running dt", term("Δ inference seconds", inferenceS), c.clean);
    },
  }),
  group("V43", {
    sentence:
      "steps: Δ iteration_tokens_total_count ≤ Δt ÷ shortest step (tokens per step have no bound: a chunked prompt counts whole at its first token)",
    severity: "I",
    needs: ["two scrapes", "--min-step-ms"],
    means: "More steps were counted than fit into the time.",
    check: (c) => {
      const shortestS = c.parameter("minStepMs") / 1000;
      const elapsedS = c.look.atS - (c.lookBefore?.atS ?? c.look.atS);
      // Plus one, for the step that both scrapes cut.
      const most = elapsedS / shortestS + 1;
      return atMost(c.delta("iteration_tokens_total_count"), term("Δt ÷ shortest step + 1", most));
    },
  }),
];
