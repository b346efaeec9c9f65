/** Laws between dialects that show the same engine, and between the metrics and the counts of the load generator. X01–X04. */
import type { Case } from "../pages/case.ts";
import { atLeast, atMost, equal, type LawOutcome, lawsOf, NotCheckable, plus, type Term, term } from "../pages/law.ts";

const law = lawsOf("cross", "page");

/** Tolerance for the share of used blocks. TensorRT-LLM prints it with six decimals. */
const FRACTION_TOLERANCE = 2e-6;

function both(left: Term | null, right: Term | null, tolerance = 0): LawOutcome[] {
  return left && right ? [equal(left, right, tolerance)] : [];
}

function needTwo(c: Case): void {
  const engineDialects = c.look.page.dialects.filter(({ name }) =>
    ["vllm", "triton", "trtllm", "trtllm-serve"].includes(name),
  );
  if (engineDialects.length < 2) throw new NotCheckable("one dialect");
}

function checked(outcomes: readonly LawOutcome[], subject: string): readonly LawOutcome[] {
  if (outcomes.length === 0) throw new NotCheckable(`only one dialect shows ${subject}`);
  return outcomes;
}

const engines = ({ page }: Case): number => page.samples("vllm:kv_cache_usage_perc").length;

/**
 * Returns the requests that ended in the model with the executor. An ensemble and its other steps count the same requests
 * again.
 */
function tritonEnds({ page }: Case): Term | null {
  const where = { model: "tensorrt_llm" };
  const done = page.maybe("nv_inference_request_success", where);
  return done && plus(done, page.orZero("nv_inference_request_failure", where));
}

export const cross = [
  law("X01", {
    sentence: "queue, running requests and the share of used blocks are equal in all dialects while nothing moves",
    needs: ["rest"],
    tolerance: "2e-6 for the share",
    means: "Two dialects of one engine show different moments, or one of them is wrong.",
    check: (c) => {
      needTwo(c);
      // TensorRT-LLM's gauges are from its last poll of statistics, vLLM's from the last step. Under load they differ.
      if (c.known.parameters.oneInstant !== true) c.needRest();
      const { page } = c;
      const vllm = (name: string) => page.maybe(`vllm:${name}`);
      const requests = (type: string) => page.maybe("nv_trt_llm_request_metrics", { request_type: type });
      const share = engines(c) === 1 ? vllm("kv_cache_usage_perc") : null;
      return checked(
        [
          ...both(vllm("num_requests_waiting"), requests("waiting")),
          ...both(vllm("num_requests_running"), requests("scheduled")),
          ...both(vllm("num_requests_waiting"), page.maybe("trtllm_num_requests_waiting")),
          ...both(vllm("num_requests_running"), page.maybe("trtllm_num_requests_running")),
          ...both(
            share,
            page.maybe("nv_trt_llm_kv_cache_block_metrics", { kv_cache_block_type: "fraction" }),
            FRACTION_TOLERANCE,
          ),
          ...both(share, page.maybe("trtllm_kv_cache_utilization"), FRACTION_TOLERANCE),
        ],
        "the scheduler",
      );
    },
  }),
  law("X02", {
    sentence: "vLLM's generation tokens without those of unfinished requests = trtllm_generation_tokens_total",
    means: "The dialects count different tokens.",
    check: (c) => {
      needTwo(c);
      const counted = c.page.maybe("trtllm_generation_tokens_total");
      const ended = c.page.maybe("vllm:request_generation_tokens_sum");
      const all = c.page.maybe("vllm:generation_tokens_total");
      if (!counted || !ended || !all) throw new NotCheckable("only one dialect shows generation tokens");
      // Tokens of cancelled requests are missing in vLLM's histogram of finished requests.
      return [atLeast(counted, ended), c.cleanRest ? equal(counted, ended) : atMost(counted, all)];
    },
  }),
  law("X03", {
    sentence:
      "finished requests + client aborts + refusals + requests under way = requests accepted by HTTP = Triton's successes + failures + requests under way",
    needs: ["one scrape", "rest", "truth"],
    means: "A request is lost between the layers, or counted twice.",
    check: (c) => {
      const outcomes: LawOutcome[] = [];
      const ends = c.page.maybe("vllm:e2e_request_latency_seconds_count");
      const triton = tritonEnds(c);
      const known = c.look.truth;
      if (ends && known?.requests !== undefined) {
        const underway = plus(c.page.get("vllm:num_requests_running"), c.page.get("vllm:num_requests_waiting"));
        const unanswered = term("client aborts + refusals", (known.clientAborts ?? 0) + (known.refused ?? 0));
        const all = plus(ends, unanswered, underway);
        if (c.rest) outcomes.push(equal(all, c.truthOf("requests")));
        else outcomes.push(atMost(ends, c.truthOf("requests")));
      }
      if (ends && triton && c.cleanRest) outcomes.push(equal(ends, triton));
      if (outcomes.length === 0) c.needCleanRest();
      return checked(outcomes, "the end of a request");
    },
  }),
  law("X04", {
    sentence: "at rest, the load generator's totals of tokens, cached tokens and preemptions = the counters",
    needs: ["rest", "truth"],
    means: "The server's counters do not show what the clients saw.",
    check: (c) => {
      const { truth } = c;
      c.needRest();
      const sides: readonly (readonly [keyof typeof truth, string])[] = [
        ["promptTokens", "vllm:prompt_tokens_total"],
        ["cachedTokens", "vllm:prompt_tokens_cached_total"],
        ["generationTokens", "vllm:generation_tokens_total"],
        ["preemptions", "vllm:num_preemptions_total"],
      ];
      const outcomes = sides.flatMap(([name, family]) => {
        const counted = c.page.maybe(family);
        return counted && truth[name] !== undefined ? [equal(counted, c.truthOf(name))] : [];
      });
      return checked(outcomes, "what the driver knows");
    },
  }),
];
