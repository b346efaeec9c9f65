/**
 * The laws of trtllm-serve. Family names are given without the prefix `trtllm_`. Source: `tensorrt_llm/metrics/collector.py`.
 * S01–S07.
 */
import type { Case } from "../pages/case.ts";
import { atLeast, atMost, clockTolerance, equal, lawsOf, NotCheckable, plus, type Term, term } from "../pages/law.ts";

const law = lawsOf("trtllm-serve", "group");

/** Histograms in which the server does not observe values of 0. */
const WITHOUT_ZEROS = [
  "e2e_request_latency_seconds",
  "time_to_first_token_seconds",
  "request_prefill_time_seconds",
  "request_decode_time_seconds",
];

function ratio(left: Term, whole: Term): Term {
  return term(`${left.text} ÷ ${whole.text}`, whole.value === 0 ? 0 : left.value / whole.value);
}

export const trtllmServe = [
  law("S01", {
    sentence:
      "num_scheduled_requests ≤ num_requests_running ≤ max_num_active_requests; scheduled = context + generation",
    means: "More requests are scheduled than run, or more run than are allowed.",
    check: ({ now }) => {
      const [scheduled, running] = [now.get("num_scheduled_requests"), now.get("num_requests_running")];
      return [
        atMost(scheduled, running),
        atMost(running, now.get("max_num_active_requests")),
        equal(scheduled, plus(now.get("num_context_requests"), now.get("num_generation_requests"))),
      ];
    },
  }),
  law("S02", {
    sentence: "kv_cache_utilization = used blocks ÷ max blocks; used + free = max",
    tolerance: "1e-6",
    means: "Blocks were lost, or the share is not computed from these blocks.",
    check: ({ now }) => {
      const [used, most] = [now.get("kv_cache_used_blocks"), now.get("kv_cache_max_blocks")];
      return [
        equal(now.get("kv_cache_utilization"), ratio(used, most), 1e-6),
        equal(plus(used, now.get("kv_cache_free_blocks")), most),
      ];
    },
  }),
  law("S03", {
    sentence:
      "request_queue_time_seconds count = Σ request_success_total (1.0 to 1.2: at most); e2e, first token, prefill and decode counts at most that",
    means: "A finished request was counted in one family and not in the other.",
    check: (c) => {
      const { now } = c;
      const ended = now.get("request_success_total");
      const most = WITHOUT_ZEROS.flatMap((name) => {
        const count = now.maybe(`${name}_count`);
        return count ? [atMost(count, ended)] : [];
      });
      const queued = now.get("request_queue_time_seconds_count");
      // Before TensorRT-LLM#12545 a queue time of 0 was also not observed.
      const isExact = c.versionOf("trtllm-serve") === "1.3" && c.isVersionTold("trtllm-serve");
      return [isExact ? equal(queued, ended) : atMost(queued, ended), ...most];
    },
  }),
  law("S04", {
    sentence:
      "prompt_cached_tokens_total ≤ prompt_tokens_total; prompt_cached_tokens_per_request sum = prompt_cached_tokens_total",
    means: "More prompt tokens were cached than there are, or two counts of them differ.",
    check: ({ now }) => {
      const cached = now.get("prompt_cached_tokens_total");
      return [
        atMost(cached, now.get("prompt_tokens_total")),
        equal(now.get("prompt_cached_tokens_per_request_sum"), cached),
      ];
    },
  }),
  law("S05", {
    sentence: "generation_tokens_total moves only when a request ends",
    needs: ["two scrapes"],
    means: "Tokens were counted while they stream, but this server counts them when the request ends.",
    check: (c: Case) => {
      const tokens = c.delta("generation_tokens_total");
      return tokens.value > 0 ? atLeast(c.delta("request_success_total"), term("1, as tokens were counted", 1)) : null;
    },
  }),
  law("S06", {
    sentence: "kv_cache_hit_rate ≈ reused ÷ (reused + missed) blocks",
    severity: "W",
    tolerance: "1e-3",
    means: "The hit rate does not match the counters.",
    check: ({ now }) => {
      const reused = now.get("kv_cache_reused_blocks_total");
      const all = plus(reused, now.get("kv_cache_missed_blocks_total"));
      if (all.value === 0) throw new NotCheckable("no block was looked up yet");
      return equal(now.get("kv_cache_hit_rate"), ratio(reused, all), 1e-3);
    },
  }),
  law("S07", {
    sentence: "decode time ≥ time per output token; queue + inference ≤ e2e",
    tolerance: "1 ms per request",
    means: "A part of the requests took longer than the whole.",
    check: ({ now }) => {
      const e2e = now.of("e2e_request_latency_seconds");
      const tolerance = clockTolerance(e2e.count.value);
      const inside = plus(now.get("request_queue_time_seconds_sum"), now.get("request_inference_time_seconds_sum"));
      return [
        atLeast(now.get("request_decode_time_seconds_sum"), now.get("time_per_output_token_seconds_sum"), tolerance),
        atMost(inside, e2e.sum, tolerance),
      ];
    },
  }),
];
