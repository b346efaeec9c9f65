/** vLLM's laws that the gauges of scheduler, KV pool and prefix cache agree. V01–V08. */
import { type Case, flagOf } from "../pages/case.ts";
import { atLeast, atMost, equal, lawsOf, NotCheckable, plus, term, times } from "../pages/law.ts";

const law = lawsOf("vllm", "group");

/** Returns a number from the labels of `cache_config_info`, which carry the configuration. Takes the first label that is set. */
export function configured(c: Case, ...labels: readonly string[]): number | undefined {
  const [info] = c.now.samples("cache_config_info");
  for (const label of labels) {
    const text = info?.labels[label];
    if (text !== undefined && /^\d+$/.test(text)) return Number(text);
  }
  return undefined;
}

/** Returns the number of engines on the page. `cache_config_info` gives the sum of their blocks. */
export function engines(c: Case): number {
  const ranks = c.page.samples("vllm:num_requests_running").map(({ labels }) => labels.engine);
  return Math.max(1, new Set(ranks).size);
}

/** Returns the KV blocks of one engine, including the null block. */
function blocks(c: Case): number {
  const flag = c.known.parameters.numGpuBlocks;
  if (flag !== undefined) return flag;
  const all = configured(c, "num_gpu_blocks");
  if (all === undefined)
    throw new NotCheckable(`unknown: num_gpu_blocks of cache_config_info, or ${flagOf("numGpuBlocks")}`);
  return all / engines(c);
}

function blockSize(c: Case): number {
  const size = c.known.parameters.blockSize ?? configured(c, "hash_block_size", "block_size");
  if (size === undefined) throw new NotCheckable(`unknown: block_size of cache_config_info, or ${flagOf("blockSize")}`);
  return size;
}

function needCaching(c: Case): void {
  const [info] = c.now.samples("cache_config_info");
  const flag = c.known.parameters.enablePrefixCaching ?? info?.labels.enable_prefix_caching;
  if (String(flag).toLowerCase() === "false") throw new NotCheckable("prefix caching is off");
  if (c.now.orZero("external_prefix_cache_queries_total").value > 0) throw new NotCheckable("a KV connector is in use");
  if (flag === undefined && c.now.get("prefix_cache_queries_total").value === 0) {
    throw new NotCheckable("unknown whether prefix caching is on: --enable-prefix-caching");
  }
}

const ABORTS = "vllm#29928 and vllm#22545: gauges stay up after all requests were cancelled; a router starves the pod";

export const gauges = [
  law("V01", {
    sentence: "num_requests_waiting = Σ num_requests_waiting_by_reason",
    means: "The total of the queue and its parts are from different moments, or one of them is wrong.",
    check: ({ now }) => equal(now.get("num_requests_waiting"), now.get("num_requests_waiting_by_reason")),
  }),
  law("V02", {
    sentence: "num_requests_running ≤ max_num_seqs",
    needs: ["one scrape", "--max-num-seqs"],
    means: "More requests run than a step allows. Admission accepts too many, or finished requests are still counted.",
    check: (c) => atMost(c.now.get("num_requests_running"), term("max_num_seqs", c.parameter("maxNumSeqs"))),
  }),
  law("V03", {
    sentence: "kv_cache_usage_perc · (num_gpu_blocks − 1) is a whole number",
    tolerance: "1e-6 · blocks",
    means:
      "The share does not correspond to whole blocks. It was divided by the pool including the null block, averaged, or invented.",
    looksLike: "used ÷ N in place of 1 − free ÷ (N − 1)",
    check: (c) => {
      const usable = blocks(c) - 1;
      const used = times(usable, c.now.get("kv_cache_usage_perc"));
      return equal(used, term("a whole number", Math.round(used.value)), 1e-6 * usable);
    },
  }),
  law("V04", {
    sentence: "if no request runs or waits, kv_cache_usage_perc = 0",
    means: "Blocks are in use without a request. (A prefill server that keeps blocks for a decode server may do so.)",
    looksLike: ABORTS,
    check: ({ now }) => {
      const unfinished = plus(now.get("num_requests_running"), now.get("num_requests_waiting"));
      return unfinished.value > 0
        ? null
        : equal(now.get("kv_cache_usage_perc"), term("0, as nothing runs or waits", 0));
    },
  }),
  law("V05", {
    sentence: "a request runs ⇔ blocks are in use (a deferred one may hold blocks too)",
    means:
      "Requests run without blocks (freed too early, or the gauge of running requests is stuck), or blocks are in use without a request.",
    looksLike: ABORTS,
    check: ({ now }) => {
      const running = now.get("num_requests_running");
      const usage = now.get("kv_cache_usage_perc");
      const deferred =
        now.maybe("num_requests_waiting_by_reason", { reason: "deferred" }) ?? now.get("num_requests_waiting");
      return [
        running.value < 1 || usage.value > 0 ? null : { left: usage, relation: "> 0, as", right: running },
        usage.value <= 0 ? null : atLeast(plus(running, deferred), term(`1, as blocks are in use (${usage.text})`, 1)),
      ];
    },
  }),
  law("V06", {
    sentence:
      "prefix_cache_hits_total ≤ prefix_cache_queries_total, and is a multiple of the block size; the external ones too",
    means: "Cache hits were counted without a lookup, or for parts of blocks.",
    looksLike: "vllm#25780: recomputed tokens after a preemption counted as hits; llm-d-inference-sim#356",
    check: (c) => {
      const outcomes = [];
      for (const which of ["", "external_"]) {
        const hits =
          which === "" ? c.now.get("prefix_cache_hits_total") : c.now.orZero("external_prefix_cache_hits_total");
        if (which !== "" && hits.value === 0) continue;
        const queries = c.orZero(`${which}prefix_cache_queries_total`);
        outcomes.push(atMost(hits, queries));
        const size = blockSizeOrNull(c);
        if (size === null) continue;
        const whole = Math.round(hits.value / size) * size;
        outcomes.push(equal(hits, term(`a multiple of ${size}`, whole)));
      }
      return outcomes;
    },
  }),
  law("V07", {
    sentence: "without new queries there are no new hits",
    needs: ["two scrapes"],
    means: "Hits grow without a lookup. They are counted again for each chunk of a prompt, or after a preemption.",
    looksLike: "hits counted per chunk; vllm#25780",
    check: (c) => {
      const queries = c.delta("prefix_cache_queries_total");
      return queries.value !== 0
        ? null
        : equal(c.delta("prefix_cache_hits_total"), term("0, as nothing was queried", 0));
    },
  }),
  law("V08", {
    sentence: "caching on, no connector: prefix_cache_queries_total ≥ prompt_tokens_total; = at clean rest",
    needs: ["one scrape", "clean", "rest"],
    means:
      "Every admitted prompt is looked up once, whole. Fewer: prompts are counted that were never looked up (requests that skip reading the cache are exempt). More at clean rest: lookups are counted again.",
    looksLike: "vllm#25780: counted again after a preemption",
    check: (c) => {
      needCaching(c);
      const queries = c.now.get("prefix_cache_queries_total");
      const prompts = c.now.get("prompt_tokens_total");
      if (c.cleanRest) return equal(queries, prompts);
      // Requests with prompt_logprobs skip the cache, and no metric counts them.
      const broken = atLeast(queries, prompts);
      return broken && { ...broken, severity: "W" };
    },
  }),
];

function blockSizeOrNull(c: Case): number | null {
  try {
    return blockSize(c);
  } catch (failure) {
    if (failure instanceof NotCheckable) return null;
    throw failure;
  }
}
