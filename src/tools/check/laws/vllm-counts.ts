/** vLLM's laws that tokens and requests are counted once, and alike in all families. V09–V31. */
import type { Case } from "../pages/case.ts";
import type { Term } from "../pages/law.ts";
import { atLeast, atMost, equal, equalAtCleanRest, floatTolerance, lawsOf, minus, plus, term } from "../pages/law.ts";
import type { Reading } from "../pages/reading.ts";

const law = lawsOf("vllm", "group");

export const ENDED_WELL = ["stop", "length", "repetition"];
const ENDED_BADLY = ["abort", "error"];

export const success = (now: Reading, reasons?: readonly string[]): Term =>
  now.get("request_success_total", reasons ? { finished_reason: reasons } : {});

/** True if the engine itself aborted no request. Clients that disconnect are not counted anywhere. */
export const noEngineAborts = ({ now }: Case): boolean =>
  now.orZero("request_success_total", { finished_reason: ENDED_BADLY }).value === 0;

const finished = ({ now }: Case): Term => now.get("e2e_request_latency_seconds_count");
const counted = ({ now }: Case, family: string): Term => now.get(`${family}_count`);

/**
 * Histograms that get one observation per finished request, all at the same time (`loggers.py`,
 * `IterationStats.finished_requests`).
 */
const PER_REQUEST = [
  "request_queue_time_seconds",
  "request_prefill_time_seconds",
  "request_decode_time_seconds",
  "request_inference_time_seconds",
  "request_prompt_tokens",
  "request_generation_tokens",
  "request_time_per_output_token_seconds",
  "request_num_preemptions",
  "request_prefill_kv_computed_tokens",
];

const CLEAN_REST = ["one scrape", "clean", "rest"] as const;

export const counts = [
  law("V09", {
    sentence: "prompt_tokens_total = Σ prompt_tokens_by_source_total",
    means: "Some prompt tokens have no source, or two.",
    check: ({ now }) => equal(now.get("prompt_tokens_total"), now.get("prompt_tokens_by_source_total")),
  }),
  law("V10", {
    sentence: "prompt_tokens_cached_total = prompt_tokens_by_source_total of local_cache_hit and external_kv_transfer",
    means: "Two counters of the same cached tokens differ.",
    check: ({ now }) =>
      equal(
        now.get("prompt_tokens_cached_total"),
        now.get("prompt_tokens_by_source_total", { source: ["local_cache_hit", "external_kv_transfer"] }),
      ),
  }),
  law("V11", {
    sentence: "Σ prompt_tokens_cached_by_source_total = prefix_cache_hits_total + external_prefix_cache_hits_total",
    means: "Cache hits and cached tokens do not match.",
    looksLike: "vllm#25780: hits counted again after a preemption; vllm-ascend#16639: hits stay 0",
    check: ({ now }) =>
      equal(
        now.get("prompt_tokens_cached_by_source_total"),
        plus(now.get("prefix_cache_hits_total"), now.orZero("external_prefix_cache_hits_total")),
      ),
  }),
  law("V12", {
    sentence: "prompt_tokens_cached_total ≤ Σ prompt_tokens_cached_by_source_total",
    means:
      "Cached tokens are counted with the first output, which is after admission. So they cannot exceed the tokens counted at admission.",
    check: ({ now }) => atMost(now.get("prompt_tokens_cached_total"), now.get("prompt_tokens_cached_by_source_total")),
  }),
  law("V13", {
    sentence: "iteration_tokens_total_sum = prompt_tokens_by_source_total of local_compute + generation_tokens_total",
    means: "The steps have other tokens than the counters: some were lost, or cached tokens were counted as computed.",
    looksLike: "llm-d-inference-sim#631: a lossy path of metrics",
    check: ({ now }) =>
      equal(
        now.get("iteration_tokens_total_sum"),
        plus(now.get("prompt_tokens_by_source_total", { source: "local_compute" }), now.get("generation_tokens_total")),
      ),
  }),
  law("V14", {
    sentence: "time_to_first_token_seconds_count ≥ request_success_total of stop, length and repetition",
    means: "Requests finished successfully without a first token.",
    looksLike: "vllm#8115 the other way round",
    check: (c) => atLeast(counted(c, "time_to_first_token_seconds"), success(c.now, ENDED_WELL)),
  }),
  law("V15", {
    sentence: "e2e_request_latency_seconds_count = Σ request_success_total",
    means: "A finished request is counted in one family and not in the other.",
    looksLike: "vllm#31503: ends that reach one counter only",
    check: (c) => equal(finished(c), success(c.now)),
  }),
  law("V16", {
    sentence:
      "all histograms with one observation per finished request have the same count; request_params_max_tokens at most that",
    means: "One of the observations at the end of a request is missing, or was made twice.",
    check: (c) => {
      const ends = finished(c);
      const equalCounts = PER_REQUEST.flatMap((name) => {
        const count = c.now.maybe(`${name}_count`);
        return count ? [equal(count, ends)] : [];
      });
      const limit = c.now.maybe("request_params_max_tokens_count");
      return [...equalCounts, limit && atMost(limit, ends)];
    },
  }),
  law("V21", {
    sentence: "generation_tokens_total ≥ request_generation_tokens_sum; = at clean rest",
    needs: CLEAN_REST,
    means:
      "Finished requests have more tokens than were generated. At clean rest: tokens were generated that belong to no finished request.",
    check: (c) => equalAtCleanRest(c, c.now.get("generation_tokens_total"), c.now.get("request_generation_tokens_sum")),
  }),
  law("V22", {
    sentence: "prompt_tokens_total ≥ request_prompt_tokens_sum if the engine aborted no request; = at clean rest",
    needs: CLEAN_REST,
    means:
      "At clean rest every prompt token belongs to a finished request. A difference means that some requests never ended.",
    looksLike: "vllm#55634: aborted requests count in prompt_tokens_total only",
    check: (c) => {
      const [all, ended] = [c.now.get("prompt_tokens_total"), c.now.get("request_prompt_tokens_sum")];
      if (c.cleanRest) return equal(all, ended);
      if (!noEngineAborts(c)) return null;
      const short = atLeast(all, ended);
      if (short || !c.rest || all.value === ended.value) return short;
      return {
        left: all,
        relation: "=",
        right: ended,
        known: "vllm#55634: prompts of clients that left stay in prompt_tokens_total",
      };
    },
  }),
  law("V23", {
    sentence: "at clean rest request_prefill_kv_computed_tokens_sum = prompt_tokens_total − prompt_tokens_cached_total",
    needs: CLEAN_REST,
    means: "Computed and cached tokens do not add up to the prompt tokens.",
    check: (c) => {
      c.needCleanRest();
      const computed = minus(c.now.get("prompt_tokens_total"), c.now.get("prompt_tokens_cached_total"));
      return equal(c.now.get("request_prefill_kv_computed_tokens_sum"), computed);
    },
  }),
  law("V24", {
    sentence:
      "time_to_first_token_seconds_count + inter_token_latency_seconds_count ≤ generation_tokens_total; = without speculation; up to one more per request that failed or that the engine aborted",
    means:
      "Each output is the first one or has a latency after the one before. Some outputs are observed twice, or not at all.",
    looksLike: "vllm#42661: tokens that share a chunk; stream intervals leaking into the engine's counts",
    check: (c) => {
      const observed = plus(counted(c, "time_to_first_token_seconds"), counted(c, "inter_token_latency_seconds"));
      const tokens = c.now.get("generation_tokens_total");
      const speculates =
        c.now.samples("spec_decode_num_drafts_total").length > 0 || (c.known.parameters.numSpeculativeTokens ?? 0) > 0;
      // A failure or an abort by the engine produces an output without tokens. Failures that the scheduler finds, and aborts
      // by clients, do not, even if they are counted.
      const without = plus(
        c.now.orZero("request_success_total", { finished_reason: "abort" }),
        c.now.orZero("request_success_total", { finished_reason: "error" }),
      );
      if (speculates || without.value > 0) {
        return [atMost(observed, plus(tokens, without)), speculates ? null : atLeast(observed, tokens)];
      }
      return equal(observed, tokens);
    },
  }),
  law("V25", {
    sentence: "first tokens without an end ≤ requests running or waiting, if no client left; none at clean rest",
    needs: CLEAN_REST,
    means:
      "More requests had a first token than have ended or are under way. Clients that disconnected explain it, because vLLM does not count them.",
    looksLike: "vllm#8115: 8060 first tokens, 3918 finished requests",
    check: (c) => {
      const open = minus(counted(c, "time_to_first_token_seconds"), finished(c));
      if (c.cleanRest) return equal(open, term("0, at clean rest", 0));
      if (!noEngineAborts(c)) return null;
      const underway = plus(c.now.get("num_requests_running"), c.now.get("num_requests_waiting"));
      const broken = atMost(open, underway);
      if (broken === null || c.clean) return broken;
      return { ...broken, known: "vllm#31503: a client that leaves after its first token reaches no counter of ends" };
    },
  }),
  law("V26", {
    sentence:
      "request_max_num_generation_tokens and request_params_n count alike, at most e2e; at clean rest Σ n = e2e count",
    needs: CLEAN_REST,
    means: "Requests and their choices (n > 1) are confused.",
    check: (c) => {
      const [most, n] = [c.now.of("request_max_num_generation_tokens"), c.now.of("request_params_n")];
      const [ends, tokens] = [finished(c), c.now.get("request_generation_tokens_sum")];
      const single = n.sum.value === n.count.value && c.cleanRest;
      return [
        equal(most.count, n.count),
        atMost(n.count, ends),
        atMost(most.sum, tokens),
        c.cleanRest ? equal(n.sum, ends) : null,
        single ? equal(n.count, ends) : null,
        single ? equal(most.sum, tokens) : null,
      ];
    },
  }),
  law("V27", {
    sentence: "num_preemptions_total ≥ request_num_preemptions_sum; = at clean rest",
    needs: CLEAN_REST,
    means: "The preemptions of requests do not match those of the engine.",
    looksLike: "vllm#5051",
    check: (c) => equalAtCleanRest(c, c.now.get("num_preemptions_total"), c.now.get("request_num_preemptions_sum")),
  }),
  law("V28", {
    sentence: "no prompt or answer is longer than max_model_len, nor both together",
    needs: ["one scrape", "--max-model-len"],
    means: "Requests are longer than the model allows. They were not truncated, or their tokens are counted wrongly.",
    check: (c) => {
      const most = c.parameter("maxModelLen");
      const [prompts, answers] = [c.now.of("request_prompt_tokens"), c.now.of("request_generation_tokens")];
      const buckets = [
        ...c.now.bucketsFrom("request_prompt_tokens", most).map((bucket) => equal(bucket, prompts.count)),
        ...c.now.bucketsFrom("request_generation_tokens", most).map((bucket) => equal(bucket, answers.count)),
      ];
      const room = term(`max_model_len · ${prompts.count.text}`, most * prompts.count.value);
      return [...buckets, atMost(plus(prompts.sum, answers.sum), room)];
    },
  }),
  law("V30", {
    sentence: "request_generation_tokens_sum ≥ request_success_total of stop and length",
    means: "Empty answers are counted as successes.",
    check: ({ now }) => atLeast(now.get("request_generation_tokens_sum"), success(now, ["stop", "length"])),
  }),
  law("V31", {
    sentence: "if every request has a limit, request_generation_tokens_sum ≤ request_params_max_tokens_sum",
    means: "Answers continued after max_tokens.",
    check: ({ now }) => {
      const [generated, limit] = [now.of("request_generation_tokens"), now.of("request_params_max_tokens")];
      return generated.count.value === limit.count.value ? atMost(generated.sum, limit.sum) : null;
    },
  }),
];

/** Cites the source, because no public issue is known. */
const SINCE_ZERO =
  "vLLM 0.33 v1/metrics/stats.py, update_from_finished_request: what the engine aborts before its first token ran since the zero of the machine's clock";

export const timeLaws = [
  law("V17", {
    sentence: "request_inference_time_seconds_sum = prefill + decode",
    tolerance: "1e-9 relative per observation",
    means:
      "Time of running requests is counted neither as prefill nor as decode, or as both. The timer may have restarted at a preemption.",
    check: ({ now }) => {
      const inference = now.of("request_inference_time_seconds");
      const parts = plus(now.get("request_prefill_time_seconds_sum"), now.get("request_decode_time_seconds_sum"));
      return equal(inference.sum, parts, floatTolerance(inference.sum.value, parts.value, inference.count.value));
    },
  }),
  law("V18", {
    sentence: "request_queue_time_seconds_sum + request_inference_time_seconds_sum ≤ e2e_request_latency_seconds_sum",
    tolerance: "1 ms per request",
    means: "Waiting and running took longer than the whole request. Its arrival is recorded too late.",
    check: (c) => {
      const e2e = c.now.of("e2e_request_latency_seconds");
      const inside = plus(c.now.get("request_queue_time_seconds_sum"), c.now.get("request_inference_time_seconds_sum"));
      const broken = atMost(inside, e2e.sum, 1e-3 * e2e.count.value + 1e-6);
      return broken === null || noEngineAborts(c) ? broken : { ...broken, known: SINCE_ZERO };
    },
  }),
  law("V19", {
    sentence: "if the engine aborted no request: time_to_first_token_seconds_sum ≥ queue + prefill",
    tolerance: "1 ms per request",
    means:
      "The first token came before the end of queue and prefill. TTFT may be measured from scheduling, not from arrival.",
    looksLike: "vllm#46652, seen from the client's side",
    check: (c) => {
      if (!noEngineAborts(c)) return null;
      const first = c.now.of("time_to_first_token_seconds");
      const inside = plus(c.now.get("request_queue_time_seconds_sum"), c.now.get("request_prefill_time_seconds_sum"));
      return atLeast(first.sum, inside, 1e-3 * first.count.value + 1e-6);
    },
  }),
  law("V20", {
    sentence: "inter_token_latency_seconds_sum ≥ request_decode_time_seconds_sum; = at clean rest",
    needs: CLEAN_REST,
    tolerance: "1e-9 relative per observation",
    means:
      "Decode time must be the sum of the token gaps. A gap was lost at a preemption, or the first token counts as a gap.",
    check: (c) => {
      const gaps = c.now.of("inter_token_latency_seconds");
      const decode = c.now.get("request_decode_time_seconds_sum");
      const tolerance = floatTolerance(gaps.sum.value, decode.value, gaps.count.value);
      return equalAtCleanRest(c, gaps.sum, decode, tolerance);
    },
  }),
  law("V29", {
    sentence: "request_time_per_output_token_seconds_sum ≤ request_decode_time_seconds_sum",
    tolerance: "1e-9 relative per observation",
    means: "Times per output token add up to more than the decode times. The unit may be wrong.",
    check: ({ now }) => {
      const perToken = now.of("request_time_per_output_token_seconds");
      const decode = now.get("request_decode_time_seconds_sum");
      return atMost(perToken.sum, decode, floatTolerance(perToken.sum.value, decode.value, perToken.count.value));
    },
  }),
];
