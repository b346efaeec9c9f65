/** The laws that hold for every metrics page from scrape to scrape, and at rest. G10–G13, G16, G17, G19, G20. */
import type { Case } from "../pages/case.ts";
import { isAmbient } from "../pages/catalogue.ts";
import type { Exposition, ScrapedFamily, ScrapedSample } from "../pages/exposition.ts";
import { eachSample, seriesKey, seriesText } from "../pages/exposition.ts";
import {
  atLeast,
  atMost,
  complaint,
  equal,
  type LawOutcome,
  lawsOf,
  type Mismatch,
  NotCheckable,
  term,
} from "../pages/law.ts";
import { unknownLabels } from "./labels.ts";
import { fellTogether, startOf } from "./restart.ts";

const law = lawsOf("any", "page");
/** Seconds by which the clocks of two hosts, or of a file and a host, may differ. */
const CLOCK_SLACK_S = 60;
/** Smallest time that counts as seconds since 1970. Smaller times count from any start. */
const EPOCH_S = 1e9;

/** Returns all series of a scrape, by name and label set. */
export function indexOf({ families }: Exposition): Map<string, ScrapedSample> {
  const index = new Map<string, ScrapedSample>();
  for (const { samples } of families.values()) for (const sample of samples) index.set(seriesKey(sample), sample);
  return index;
}

/** Returns the samples that both this scrape and the one before have. */
function pairs(
  c: Case,
): { readonly family: ScrapedFamily; readonly now: ScrapedSample; readonly before: ScrapedSample }[] {
  const earlier = indexOf(c.before.exposition);
  return eachSample(c.look.exposition, (now, family) => {
    const before = earlier.get(seriesKey(now));
    return before ? [{ family, now, before }] : [];
  });
}

const text = ({ name, labels }: ScrapedSample): string => seriesText(name, labels);

/** Reports whether a series only grows: counters, buckets, counts, and sums of values that are never negative. */
function accumulates({ type, name }: ScrapedFamily, sample: ScrapedSample): boolean {
  if (sample.name.endsWith("_created")) return false;
  if (type === "counter") return true;
  if (type === "histogram") return sample.name !== name;
  return type === "summary" && sample.name !== name;
}

/** Matches labels whose values may come and go with the configuration, such as models and engines. */
const IDENTITY =
  /^(model|model_name|engine|version|engine_type|worker_id|WorkerId|ReplicaId|SessionName|NodeId|JobId|ActorId|pid|gpu|UUID|gpu_uuid|position|lora|running_lora_adapters|waiting_lora_adapters|max_lora)$/;
/** Matches families whose series all exist from the server's start. */
const COMPLETE = /^(vllm:|nv_trt_llm_|nv_inference_)(?!lora_|.*mooncake|.*nixl|.*kv_offload)/;
/**
 * Matches families of the router of vLLM's production stack. It clears its gauges at each scrape and sets them for the servers
 * that it knows at that moment.
 */
const CLEARED = /^vllm_router:/;
const LIKE_AN_ID =
  /^((chat)?cmpl-|req[-_]|trace[-_])?[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}|^(chat)?cmpl-/i;

export const overTime = [
  law("G10", {
    sentence: "counters, buckets and counts never fall, nor do sums of values that are never negative",
    needs: ["two scrapes"],
    means: "rate() treats a fall as a restart and adds the whole value again.",
    looksLike:
      "geolens#1240: a page that another worker answers each time; vllm#37354 and LMCache#2912: a negative delta; kthena#975",
    check: (c) => {
      const outcomes: LawOutcome[] = [];
      for (const { family, now, before } of pairs(c)) {
        if (!accumulates(family, now) || now.value >= before.value) continue;
        const tolerance = now.name.endsWith("_sum") ? 1e-9 * Math.abs(before.value) : 0;
        outcomes.push(atLeast(term(text(now), now.value), term("its value before", before.value), tolerance));
      }
      return outcomes;
    },
  }),
  law("G11", {
    sentence:
      "after a restart all counters fall together and the start time grows; a process that answered before did not start later",
    needs: ["two scrapes"],
    means: "Some counters were reset while the process continued, or several processes answer at one address.",
    looksLike: "geolens#1240",
    check: (c) => {
      if (c.lookBefore === null) throw new NotCheckable(c.whyAlone);
      const [start, startBefore] = [startOf(c.look.exposition), startOf(c.lookBefore.exposition)];
      if (start !== null && startBefore !== null) {
        const fell = atLeast(term("start time of the process", start), term("the one before", startBefore), 1e-3);
        if (fell !== null) return fell;
        const lookedS = c.lookBefore.atS;
        if (start > startBefore + 1 && lookedS > EPOCH_S) {
          return atLeast(
            term("start time of the new process", start),
            term("time of the scrape before", lookedS),
            CLOCK_SLACK_S,
          );
        }
      }
      const { fell, stayed } = fellTogether(c.look.exposition, c.lookBefore.exposition);
      if (start === null && fell.length > 0 && stayed.length === 0) {
        const falls = ((c.memory.get("falls") as number | undefined) ?? 0) + 1;
        c.memory.set("falls", falls);
        return atMost(term("times that all counters fell together", falls), term("1, a restart", 1));
      }
      if (fell.length === 0 || stayed.length === 0 || start !== startBefore || start === null) return null;
      const all = fell.length + stayed.length;
      return complaint(
        `${fell.length} of ${all} counters fell, not all or none: ${fell.slice(0, 3).join(", ")}`,
        fell.length,
      );
    },
  }),
  law("G12", {
    sentence: "no series disappears while the process runs",
    needs: ["two scrapes"],
    means: "Queries over the series end. If it returns, it starts anew.",
    looksLike: "vllm#8178: metrics vanish",
    check: (c) => {
      void c.before;
      c.needWhole();
      const now = indexOf(c.look.exposition);
      const missing = [...indexOf(c.before.exposition).values()].filter((sample) => !now.has(seriesKey(sample)));
      const loaded = loadedModels(c.look.exposition);
      return missing.flatMap((sample): Mismatch[] => {
        if (sample.labels.pid !== undefined || isUnloaded(sample, loaded) || CLEARED.test(sample.name)) return [];
        return [complaint(`${text(sample)} is gone; it was ${sample.value}`, 0)];
      });
    },
  }),
  law("G13", {
    sentence:
      "the label names of a family are the same in all its series, and no new series appear while models and engines stay the same (W: a label that the known server does not have, on some of the families)",
    needs: ["one scrape", "two scrapes"],
    means: "A label has a value per request, so the number of series grows without limit.",
    looksLike: "vllm#56919 and others: a request id or free text as a label",
    check: (c) => [
      ...[...c.look.exposition.families.values()].flatMap((family) => labelsOf(family, c)),
      ...c.look.page.dialects.flatMap((dialect) => (c.isMapped(dialect.name) ? [] : unknownLabels(c, dialect))),
    ],
  }),
  law("G16", {
    sentence:
      "two scrapes at rest, with no request in between, are equal, except for values of process, host and clock",
    needs: ["rest", "two scrapes"],
    means: "A value changes although the server is idle: an average drifts, or a gauge is late.",
    looksLike: "vllm#29928, sglang#4244: gauges that are stale when idle",
    check: (c) => {
      c.needStill();
      return pairs(c).flatMap(({ family, now, before }): LawOutcome[] => {
        if (isAmbient(family.name) || Object.is(now.value, before.value)) return [];
        return [equal(term(text(now), now.value), term("its value before", before.value))];
      });
    },
  }),
  law("G17", {
    sentence: "_created times do not change, and are neither in the future nor before the start of the process",
    severity: "W",
    needs: ["one scrape", "two scrapes"],
    means: "A series was created again, or its time is wrong.",
    check: (c) => {
      const start = startOf(c.look.exposition);
      const before = c.lookBefore === null ? null : indexOf(c.lookBefore.exposition);
      const outcomes: LawOutcome[] = [];
      for (const [name, samples] of c.look.exposition.byName) {
        if (!name.endsWith("_created")) continue;
        for (const sample of samples) {
          const created = term(text(sample), sample.value);
          const earlier = before?.get(seriesKey(sample));
          if (earlier) outcomes.push(equal(created, term("its value before", earlier.value), 1e-3));
          if (c.look.atS > EPOCH_S)
            outcomes.push(atMost(created, term("the time of the scrape", c.look.atS), CLOCK_SLACK_S));
          if (start !== null) outcomes.push(atLeast(created, term("start of the process", start), 1));
        }
      }
      if (outcomes.length === 0) throw new NotCheckable("no _created series here");
      return outcomes;
    },
  }),
  law("G19", {
    sentence: "at rest every gauge of running work is 0",
    needs: ["rest"],
    tolerance: "within 1 s of the last end",
    means: "Requests or blocks are still counted as running, waiting or in use although the server is idle.",
    looksLike: "vllm#22545, vllm#29928, dynamo#2576, sglang#4244: leaks and stale gauges; a router starves the pod",
    check: (c) => {
      const gauges = eachSample(c.look.exposition, (sample) =>
        c.look.page.isUnderWay(sample.name, sample.labels) ? [sample] : [],
      );
      if (gauges.length === 0) throw new NotCheckable("no gauge of what is under way here");
      c.needRest();
      return gauges.map((sample) => equal(term(text(sample), sample.value), term("0, at rest", 0)));
    },
  }),
  law("G20", {
    sentence: "Δ generation tokens ≤ max_num_seqs · steps · (1 + draft tokens)",
    severity: "W",
    needs: ["two scrapes", "--max-num-seqs"],
    means: "More tokens were counted than the steps can produce. They may be counted twice.",
    check: (c) => {
      const steps = c.page.maybe("vllm:iteration_tokens_total_count");
      if (steps === null) throw new NotCheckable("no count of steps here (vllm:iteration_tokens_total)");
      const perStep = c.parameter("maxNumSeqs") * (1 + (c.known.parameters.numSpeculativeTokens ?? 0));
      const most = perStep * c.delta("vllm:iteration_tokens_total_count").value;
      return atMost(c.delta("vllm:generation_tokens_total"), term("max_num_seqs · Δ steps · (1 + draft tokens)", most));
    },
  }),
];

const modelOf = ({ labels: { model, version } }: ScrapedSample): string => JSON.stringify([model, version]);

function loadedModels({ byName }: Exposition): ReadonlySet<string> {
  return new Set((byName.get("nv_inference_request_success") ?? []).map(modelOf));
}

/** Reports whether the model of the series was unloaded. Triton then removes all its series except the failures. */
function isUnloaded(sample: ScrapedSample, loaded: ReadonlySet<string>): boolean {
  return sample.labels.model !== undefined && sample.name.startsWith("nv_") && !loaded.has(modelOf(sample));
}

/**
 * Returns the label names that the server chose, without those that the type adds. Triton's GPU series have one label more,
 * which is also left out.
 */
const ownLabels = (labels: Readonly<Record<string, string>>): string =>
  Object.keys(labels)
    .filter((name) => !["le", "quantile", "gpu_uuid", "namespace"].includes(name))
    .sort()
    .join(",");

function labelsOf(family: ScrapedFamily, c: Case): LawOutcome[] {
  const outcomes: LawOutcome[] = [];
  const [first] = family.samples;
  if (first === undefined) return [];
  const firstLabels = ownLabels(first.labels);
  const odd = family.samples.find(({ labels }) => ownLabels(labels) !== firstLabels);
  // Only the tagged Triton model has its tags as labels, so the label sets may differ.
  if (odd && !family.name.startsWith("nv_")) {
    outcomes.push(complaint(`${text(odd)} has other labels than the first of its family: ${firstLabels || "none"}`, 1));
  }
  const id = family.samples.find(({ labels }) =>
    Object.entries(labels).some(([name, label]) => !IDENTITY.test(name) && LIKE_AN_ID.test(label)),
  );
  if (id) outcomes.push(complaint(`a label of ${text(id)} looks like the id of a request`, 1));
  const before = c.lookBefore?.exposition.families.get(family.name);
  const isWhole = c.look.exposition.excerpt === null && c.lookBefore?.exposition.excerpt === null;
  if (!before || before.samples.length === 0 || !isWhole || !COMPLETE.test(family.name)) return outcomes;
  const identities = (samples: readonly ScrapedSample[]) =>
    new Set(
      samples.map(({ labels }) =>
        JSON.stringify(
          Object.entries(labels)
            .filter(([name]) => IDENTITY.test(name))
            .sort(),
        ),
      ),
    );
  const sameModels = identities(family.samples).size === identities(before.samples).size;
  const grown = family.samples.length - before.samples.length;
  if (sameModels && grown > 0)
    outcomes.push(equal(term(`new series of ${family.name}`, grown), term("0, as models and engines stay", 0)));
  return outcomes;
}
