/**
 * The laws of TensorRT-LLM's batch manager on Triton's metrics page. Family names are given without the prefix `nv_trt_llm_`.
 * T01–T12.
 */

import type { Case } from "../pages/case.ts";
import {
  atLeast,
  atMost,
  complaint,
  equal,
  type LawOutcome,
  lawsOf,
  minus,
  NotCheckable,
  plus,
  type Term,
  term,
} from "../pages/law.ts";
import { Reading, type Where } from "../pages/reading.ts";

const law = lawsOf("trtllm", "group");

const requests = ({ now }: Case, type: string): Term => now.get("request_metrics", { request_type: type });
const blocks = ({ now }: Case, type: string): Term => now.get("kv_cache_block_metrics", { kv_cache_block_type: type });
const inflight = ({ now }: Case, metric: string): Term =>
  now.get("inflight_batcher_metrics", { inflight_batcher_specific_metric: metric });
const asText = ({ text, value }: Term): string => `${text} = ${value}`;
const general = (type: string): Where => ({ general_type: type });

/** All values of the label that distinguishes the series of a family (`custom_metrics_reporter.cc`). */
const GROUPS: readonly (readonly [name: string, label: string, values: readonly string[]])[] = [
  ["request_metrics", "request_type", ["active", "max", "scheduled", "context", "waiting"]],
  ["runtime_memory_metrics", "memory_type", ["cpu", "gpu", "pinned"]],
  ["kv_cache_block_metrics", "kv_cache_block_type", ["max", "free", "used", "tokens_per", "reused", "fraction"]],
  ["general_metrics", "general_type", ["timestamp", "iteration_counter"]],
];
/** Label values that the first versions lack. */
const CAME_LATER = ["waiting", "reused", "fraction"];

/** Reports whether the page is of the newest version. An excerpt may leave out the series that show the version. */
const isNewest = (c: Case): boolean =>
  c.versionOf("trtllm") === "with waiting" && (c.isVersionTold("trtllm") || !c.look.exposition.mayBeExcerpt);

const FIRST_REPORT =
  "tensorrtllm_backend's README of 2023 and 2024 shows such a page: at iteration 0 a block in use still counts as free, and the first context has no tokens yet";

/**
 * Marks a violation as known if it is from the first report of an older version. Before the first iteration ends, that report
 * is off by one block and lacks the tokens.
 */
function knownAtStart(c: Case, broken: LawOutcome): LawOutcome {
  const iterations = c.now.maybe("general_metrics", general("iteration_counter"));
  const isFirst = iterations === null ? c.look.exposition.mayBeExcerpt : iterations.value === 0;
  if (broken === null || isNewest(c) || !isFirst) return broken;
  return { ...broken, known: FIRST_REPORT };
}

export const trtllmLaws = [
  law("T01", {
    sentence: "request waiting = active − scheduled, at least 0",
    means: "The waiting requests are not the active ones that are not scheduled.",
    looksLike: "the waiting proposal for the endpoint picker",
    check: (c) => {
      const waiting = requests(c, "waiting");
      return [equal(waiting, minus(requests(c, "active"), requests(c, "scheduled"))), atLeast(waiting, term("0", 0))];
    },
  }),
  law("T02", {
    sentence: "request scheduled = request context + in-flight generation_requests",
    means:
      "A scheduled request is in its context or its generation phase. If the sum is wrong, a value is missing, and the values after it are shifted by one.",
    looksLike: "a group of statistics shifted by one series",
    check: (c) => equal(requests(c, "scheduled"), plus(requests(c, "context"), inflight(c, "generation_requests"))),
  }),
  law("T03", {
    sentence: "request active ≤ request max",
    means: "More requests are active than may be.",
    check: (c) => atMost(requests(c, "active"), requests(c, "max")),
  }),
  law("T04", {
    sentence: "KV blocks used + free = max; max and tokens_per do not change after they are first reported",
    needs: ["one scrape", "two scrapes"],
    means: "Blocks were lost, or are counted twice.",
    looksLike: "tensorrtllm_backend#645: no maximum of KV blocks in the metrics",
    check: (c) => {
      const sum = plus(blocks(c, "used"), blocks(c, "free"));
      const most = blocks(c, "max");
      const broken = equal(sum, most);
      const whole = sum.value === most.value + 1 ? knownAtStart(c, broken) : broken;
      if (c.lookBefore === null) return whole;
      const constant = ["max", "tokens_per"].map((type) => {
        const before = c.before.get("kv_cache_block_metrics", { kv_cache_block_type: type });
        // The value is 0 until the statistics are polled first.
        return before.value === 0 ? null : equal(blocks(c, type), { ...before, text: `${before.text} before` });
      });
      return [whole, ...constant];
    },
  }),
  law("T05", {
    sentence: "KV blocks fraction = used ÷ max (0 if there are no blocks)",
    tolerance: "1e-6: six decimals",
    means: "The fraction is not the share of blocks in use; max − used is a number of blocks.",
    looksLike: "the proposal to report max − used as the fraction",
    check: (c) => {
      const most = blocks(c, "max");
      const used = blocks(c, "used");
      const share = most.value === 0 ? 0 : used.value / most.value;
      return equal(blocks(c, "fraction"), term(`${used.text} ÷ ${most.text}`, share), 1e-6);
    },
  }),
  law("T06", {
    sentence: "KV blocks reused does not fall",
    needs: ["two scrapes"],
    means: "The gauge counts all reuses since the start, so it must not fall.",
    looksLike: "tensorrtllm_backend#537 and #592: reused blocks missing",
    check: (c) => atLeast(c.delta("kv_cache_block_metrics", { kv_cache_block_type: "reused" }), term("0", 0)),
  }),
  law("T07", {
    sentence:
      "iteration_counter and timestamp (µs) do not fall, and move together (of several engines on one page the timestamp is the latest one's)",
    needs: ["two scrapes"],
    means:
      "The iteration counter moved without the timestamp, or the other way round. The timestamp may be in seconds.",
    check: (c) => {
      const iterations = c.delta("general_metrics", general("iteration_counter"));
      const timestamp = c.delta("general_metrics", general("timestamp"));
      // With several engines, one that appears later on the page may have iterated earlier than the latest one.
      const several = c.page.samples("vllm:kv_cache_usage_perc").length > 1;
      // Versions without `waiting` show the timestamp in seconds, which may not change during many iterations
      // (`convertTimestampToSeconds`).
      const now = c.now.get("general_metrics", general("timestamp"));
      const isCoarse = !isNewest(c) && now.value < 1e12;
      const together = iterations.value > 0 === timestamp.value > 0 || ((several || isCoarse) && iterations.value > 0);
      // A time in seconds is near 1.8e9, in microseconds near 1.8e15.
      return [
        atLeast(iterations, term("0", 0)),
        atLeast(timestamp, term("0", 0)),
        together
          ? null
          : complaint(`only one of the two moved: ${asText(iterations)}, ${asText(timestamp)}`, timestamp.value),
        now.value === 0 || isCoarse ? null : atLeast(now, term("1e14, a time in µs", 1e14)),
      ];
    },
  }),
  law("T08", {
    sentence: "in-flight total_context_tokens ≥ request context; 0 if no request is in its context phase",
    means: "Requests in the context phase have no tokens, or tokens are counted without such requests.",
    check: (c) => {
      const context = requests(c, "context");
      const tokens = inflight(c, "total_context_tokens");
      if (context.value === 0) return equal(tokens, term("0, as no context runs", 0));
      const broken = atLeast(tokens, context);
      return tokens.value === 0 && context.value === 1 ? knownAtStart(c, broken) : broken;
    },
  }),
  law("T09", {
    sentence: "in-flight paused_requests = 0 under GUARANTEED_NO_EVICT",
    needs: ["one scrape", "--no-evict"],
    means: "The policy that never evicts has paused a request.",
    check: (c) => {
      if (c.parameter("noEvict") !== true) throw new NotCheckable("the policy may evict");
      return equal(inflight(c, "paused_requests"), term("0", 0));
    },
  }),
  law("T10", {
    sentence: "input_token_len count ≥ output_token_len count; both at most the model's successes and failures",
    means: "Lengths were observed for requests that no counter has.",
    looksLike: "tensorrtllm_backend#582: failures stay 0 while clients get 5xx; #667",
    check: (c) => {
      const core = new Reading(c.look.exposition, "nv_", c.now.group, c.now.byName);
      const [input, output] = [core.get("llm_input_token_len_count"), core.get("llm_output_token_len_count")];
      const outcomes: LawOutcome[] = [atLeast(input, output)];
      const ended = core.maybe("inference_request_success");
      if (ended !== null) outcomes.push(atMost(input, plus(ended, core.orZero("inference_request_failure"))));
      return outcomes;
    },
  }),
  law("T11", {
    sentence:
      "all series of all groups exist as soon as the model is loaded (older versions: all except waiting, reused and fraction)",
    means: "A statistic was missing when the group was filled. The statistics after it may be in the wrong series.",
    looksLike: "tensorrtllm_backend#645: Failed to find Max KV cache blocks in metrics",
    check: (c) => {
      c.needWhole();
      const optional = isNewest(c) ? [] : CAME_LATER;
      return GROUPS.map(([name, label, values]) => {
        const present = c.now.samples(name).map(({ labels }) => labels[label]!);
        // An excerpt may leave out whole families.
        if (present.length === 0 && c.look.exposition.mayBeExcerpt) return null;
        const missing = values.filter((value) => !present.includes(value) && !optional.includes(value));
        return equal(
          term(`series missing of ${c.now.text(name)} (${missing.join(", ")})`, missing.length),
          term("0", 0),
        );
      });
    },
  }),
  law("T12", {
    sentence: "at rest: active = scheduled = waiting = 0, and no block is in use",
    needs: ["rest"],
    tolerance: "one poll of 100 ms",
    means: "Requests or blocks are left over. (Blocks that are only cached count as free.)",
    check: (c) => {
      c.needRest();
      return [...["active", "scheduled", "waiting"].map((type) => requests(c, type)), blocks(c, "fraction")].map(
        (left) => equal(left, term("0, at rest", 0)),
      );
    },
  }),
];
