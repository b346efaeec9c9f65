/** The laws of Dynamo's frontend, per model. Family names are given without the prefix `dynamo_frontend_`. D01–D11. */
import { seriesKey } from "../pages/exposition.ts";
import type { LawOutcome } from "../pages/law.ts";
import { atLeast, atMost, equal, equalAtCleanRest, lawsOf, minus, NotCheckable, plus, term } from "../pages/law.ts";
import { indexOf } from "./over-time.ts";

const law = lawsOf("dynamo-frontend", "group");
const page = lawsOf("dynamo-frontend", "page");

/** Number of tokens after which a stream adds its token gaps to the histogram. */
const FLUSHED_EVERY = 64;

export const dynamo = [
  law("D01", {
    sentence: "requests_started_total = Σ requests_total + inflight_requests",
    means: "A request that started is counted neither as ended nor as in flight, or as both.",
    looksLike: "dynamo#2576: in-flight leaks on an early return",
    check: (c) => {
      const [started, open] = [c.now.get("requests_started_total"), c.now.get("inflight_requests")];
      // The series of finished requests appear only when the first request has finished.
      const ended = started.value === open.value ? c.now.orZero("requests_total") : c.orZero("requests_total");
      return equal(started, plus(ended, open));
    },
  }),
  law("D02", {
    sentence: "inflight_requests = active_requests; queued_requests ≤ inflight_requests",
    means: "Two gauges of the same number differ, or more requests are queued than in flight.",
    looksLike: "dynamo#8054, dynamo#2576",
    check: ({ now }) => {
      const inflight = now.get("inflight_requests");
      const active = now.maybe("active_requests");
      const queued = now.maybe("queued_requests");
      if (active === null && queued === null) throw new NotCheckable("no other gauge of requests here");
      return [active && equal(inflight, active), queued && atMost(queued, inflight)];
    },
  }),
  law("D03", {
    sentence: "request_duration_seconds count = Σ requests_total",
    means: "Requests ended without an observed duration, or the other way round.",
    check: ({ now }) => equal(now.get("request_duration_seconds_count"), now.get("requests_total")),
  }),
  law("D04", {
    sentence: "time_to_first_token count = input_sequence_tokens count ≥ output_sequence_tokens count",
    means: "First tokens, prompts and answers were observed for different requests.",
    check: ({ now }) => {
      const first = now.get("time_to_first_token_seconds_count");
      return [
        equal(first, now.get("input_sequence_tokens_count")),
        atLeast(first, now.get("output_sequence_tokens_count")),
      ];
    },
  }),
  law("D05", {
    sentence: "output_tokens_total ≥ output_sequence_tokens sum; = at clean rest",
    needs: ["one scrape", "clean", "rest"],
    means: "Finished answers have more tokens than were streamed.",
    check: (c) => equalAtCleanRest(c, c.now.get("output_tokens_total"), c.now.get("output_sequence_tokens_sum")),
  }),
  law("D06", {
    sentence: "inter_token_latency count ≤ output_tokens_total − time_to_first_token count",
    tolerance: `${FLUSHED_EVERY} per request under way`,
    means: "More gaps between tokens were observed than there can be.",
    check: ({ now }) => {
      const gaps = now.get("inter_token_latency_seconds_count");
      const most = minus(now.get("output_tokens_total"), now.get("time_to_first_token_seconds_count"));
      return atMost(gaps, most, FLUSHED_EVERY * now.orZero("inflight_requests").value);
    },
  }),
  law("D07", {
    sentence: "cached_tokens count ≤ requests_started_total; cached_tokens sum ≤ input_sequence_tokens sum",
    means: "More tokens or requests hit the cache than there were.",
    check: ({ now }) => {
      const cached = now.of("cached_tokens");
      return [
        atMost(cached.count, now.get("requests_started_total")),
        atMost(cached.sum, now.get("input_sequence_tokens_sum")),
      ];
    },
  }),
  law("D08", {
    sentence: 'status="success" ⇔ error_type=""',
    means: "A success with an error, or an error without a kind.",
    check: ({ now }) => {
      const samples = now.samples("requests_total");
      if (samples.length === 0) throw new NotCheckable(`no ${now.text("requests_total")} here`);
      const odd = samples.filter(({ labels }) => (labels.status === "success") !== (labels.error_type === ""));
      const which = odd[0] ? `: status="${odd[0].labels.status}",error_type="${odd[0].labels.error_type}"` : "";
      return equal(
        term(`series of ${now.text("requests_total")} that contradict themselves${which}`, odd.length),
        term("0", 0),
      );
    },
  }),
  page("D09", {
    sentence: "disconnected_clients never falls, and model_cancellation_total grows at least as much",
    severity: "W",
    needs: ["two scrapes"],
    means: "The gauge counts disconnects, so it must not fall. Each disconnect cancels a request.",
    looksLike: "dynamo#2953: the metric of disconnects",
    check: (c) => {
      const left = c.delta("disconnected_clients");
      const cancelled = c.now.maybe("model_cancellation_total");
      const outcomes: LawOutcome[] = [atLeast(left, term("0", 0))];
      if (cancelled !== null && left.value > 0) outcomes.push(atLeast(c.delta("model_cancellation_total"), left));
      return outcomes;
    },
  }),
  page("D10", {
    sentence: "the model_* gauges of configuration and component_total_blocks do not change",
    needs: ["two scrapes"],
    means: "The configuration of a running model has changed, or another model's series took its place.",
    check: (c) => {
      const names = [...c.look.exposition.byName.keys()].filter(
        (name) =>
          /^dynamo_frontend_model_(context_length|kv_cache_block_size|max_num_\w+|migration_limit|total_kv_blocks)$/.test(
            name,
          ) || name === "dynamo_component_total_blocks",
      );
      if (names.length === 0) throw new NotCheckable("no configuration of models here");
      const before = indexOf(c.before.exposition);
      return names.flatMap((name) =>
        c.page.samples(name).map((sample) => {
          const same = before.get(seriesKey(sample));
          // A rank shows 0 blocks until it first reports.
          if (same === undefined || same.value === 0) return null;
          const text = c.page.text(name, sample.labels);
          return equal(term(text, sample.value), term(`${text} before`, same.value));
        }),
      );
    },
  }),
  page("D11", {
    sentence: "Σ stage_requests ≤ Σ active_requests",
    severity: "W",
    means: "More requests are in the stages than are active.",
    check: ({ now }) => atMost(now.get("stage_requests"), now.get("active_requests")),
  }),
];
