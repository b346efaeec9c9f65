/**
 * Recognises the version of the server that wrote a page, by families and labels that were added or removed. Sources: vllm
 * `engine/metrics.py` (V0) and `v1/metrics/loggers.py` (V1) of 0.6.6 to 0.33.0, Triton's core#377, the READMEs of
 * tensorrtllm_backend, TensorRT-LLM#12545 (tokens, phases, and queue times of 0).
 */
import type { CheckedDialect } from "./dialects.ts";
import type { Exposition, ScrapedSample } from "./exposition.ts";
import type { DialectName } from "./law.ts";

/** A range of versions of one server whose metrics are alike. */
export interface Version {
  /** The server. */
  readonly of: DialectName;
  /** Id of the range. */
  readonly id: VersionId;
  /** The range in words, which reports print after the dialect's name. */
  readonly span: string;
}

/** Ids of version ranges whose pages can be distinguished. */
export type VersionId =
  | "V0"
  | "V1 to 0.11"
  | "0.12 to 0.29"
  | "vllm-rs"
  | "0.30"
  | "before 24.07"
  | "24.07"
  | "_statistics"
  | "without waiting"
  | "with waiting"
  | "1.0 to 1.2"
  | "1.3"
  | "before requests_total"
  | "with requests_total";

/** A recognised version range with its evidence. */
export interface PageVersion extends Version {
  /** Family, label or option that shows the version. "" if nothing does, and the newest version is assumed. */
  readonly toldBy: string;
}

/** Families of one dialect on a page. `names` are without its prefix. */
interface DialectPage {
  readonly names: ReadonlySet<string>;
  readonly samples: (name: string) => readonly ScrapedSample[];
  /** Names of families with a type, also of those without samples. */
  readonly declared: ReadonlySet<string>;
  readonly isWhole: boolean;
}

interface Row extends Version {
  /** Returns the evidence on the page for this version range. Undefined if there is none. */
  readonly evidence: (page: DialectPage) => string | undefined;
  /** Reports whether the range has this version, which is written without "v": `0.10.2`, `24.05`. */
  readonly covers: (version: string) => boolean;
}

const firstOf = (page: DialectPage, names: readonly string[]): string | undefined =>
  names.find((name) => page.names.has(name));

const V0_ONLY = [
  ...["num_requests_swapped", "cpu_cache_usage_perc", "gpu_prefix_cache_hit_rate", "cpu_prefix_cache_hit_rate"],
  ...["avg_prompt_throughput_toks_per_s", "avg_generation_throughput_toks_per_s", "tokens_total"],
  ...["time_in_queue_requests", "model_forward_time_milliseconds", "model_execute_time_milliseconds"],
  ...["spec_decode_draft_acceptance_rate", "spec_decode_efficiency", "spec_decode_num_emitted_tokens_total"],
];
/** V0 also has these families, but without the label `engine`. */
const UNTIL_0_11 = [
  ...["gpu_cache_usage_perc", "gpu_prefix_cache_queries_total", "gpu_prefix_cache_hits_total"],
  "time_per_output_token_seconds_count",
];
/** Families of which every whole V1 page has at least all but one. */
const WHOLE_V1 = [
  "num_requests_running",
  "kv_cache_usage_perc",
  "request_params_n_count",
  "e2e_request_latency_seconds_count",
];

const CONNECTORS = ["mooncake_num_descriptors", "nixl_num_descriptors"] as const;
const SINCE_0_12 = ["prompt_tokens_by_source_total", "num_requests_waiting_by_reason", "request_num_preemptions_count"];

/** Families that TensorRT-LLM#12545 added. A finished request leaves a series in the first ones. */
const SINCE_1_3 =
  /^((prompt|generation)_tokens_total|request_(prefill|decode|inference)_time_seconds_\w+|prompt_cached_tokens_\w+|num_\w+|kv_cache_(max|free|used)_blocks)$/;
/** Families of Dynamo's worker with the same prefix. */
const OF_DYNAMO = /^num_aborted_requests_total$/;
const isSince13 = (name: string): boolean => SINCE_1_3.test(name) && !OF_DYNAMO.test(name);

const isV1 = ({ names, samples }: DialectPage): boolean =>
  names.has("kv_cache_usage_perc") ||
  [...names].some((name) => samples(name).some(({ labels }) => labels.engine !== undefined));

/** Compares versions number by number: `0.10.2` is below `0.12`. */
function below(version: string, limit: string): boolean {
  const [a, b] = [version, limit].map((text) => text.split(".").map(Number));
  for (let i = 0; i < b!.length; i++) {
    if ((a![i] ?? 0) !== b![i]) return (a![i] ?? 0) < b![i]!;
  }
  return false;
}

const isVllm = (version: string): boolean => /^[01]\.\d/.test(version);
const isTrtllm = (version: string): boolean => /^1\.\d/.test(version);
const isTriton = (version: string): boolean => /^(2\d\.\d\d|2\.\d+)(\.|$)/.test(version);
/** True before 24.07. Accepts container releases (`24.07`) and server versions (`2.48`). */
const isBeforeReasons = (version: string): boolean => below(version, /^2\./.test(version) ? "2.48" : "24.07");
const valuesOf = (samples: readonly ScrapedSample[], label: string): Set<string | undefined> =>
  new Set(samples.map(({ labels }) => labels[label]));

/** Version ranges per dialect, oldest first. The first range with evidence counts. The newest is assumed without any. */
const VERSIONS: readonly Row[] = [
  {
    ...{ of: "vllm", id: "V0", span: "V0, up to 0.11" },
    // A page of a V1 engine is not a V0 page, even if somebody added an old family name to it.
    evidence: (page) => (isV1(page) ? undefined : (firstOf(page, V0_ONLY) ?? firstOf(page, UNTIL_0_11))),
    covers: (version) => version === "0" || (isVllm(version) && below(version, "0.8")),
  },
  {
    ...{ of: "vllm", id: "V1 to 0.11", span: "V1, up to 0.11" },
    evidence: (page) => (firstOf(page, SINCE_0_12) === undefined ? firstOf(page, UNTIL_0_11) : undefined),
    covers: (version) => isVllm(version) && !below(version, "0.8") && below(version, "0.12"),
  },
  {
    ...{ of: "vllm", id: "0.12 to 0.29", span: "0.12 to 0.29" },
    evidence: (page) => {
      const isWhole = page.isWhole && WHOLE_V1.filter((name) => page.names.has(name)).length >= WHOLE_V1.length - 1;
      return isWhole && !page.names.has("request_num_preemptions_count") ? "no request_num_preemptions" : undefined;
    },
    covers: (version) => isVllm(version) && !below(version, "0.12") && below(version, "0.30"),
  },
  {
    ...{ of: "vllm", id: "vllm-rs", span: "0.33, front end in Rust (vllm-rs)" },
    // This page declares the families of every KV connector. A Python page has at most those of the connector in use.
    evidence: ({ declared }) =>
      CONNECTORS.every((name) => declared.has(name)) ? `${CONNECTORS[0]} and ${CONNECTORS[1]}` : undefined,
    covers: (version) => version === "vllm-rs",
  },
  {
    ...{ of: "vllm", id: "0.30", span: "0.30 or later" },
    evidence: (page) => firstOf(page, ["request_num_preemptions_count"]),
    covers: (version) => version === "1" || isVllm(version),
  },
  {
    ...{ of: "triton", id: "before 24.07", span: "before 24.07" },
    evidence: (page) => {
      const failures = page.samples("inference_request_failure");
      const isNew = [...page.names].some((name) => name.startsWith("inference_first_response_histogram_ms"));
      const isOld = failures.length > 0 && failures.every(({ labels }) => labels.reason === undefined);
      return isOld && !isNew ? "inference_request_failure without reason" : undefined;
    },
    covers: (version) => isTriton(version) && isBeforeReasons(version),
  },
  {
    ...{ of: "triton", id: "24.07", span: "24.07 or later" },
    evidence: (page) =>
      valuesOf(page.samples("inference_request_failure"), "reason").size > 0
        ? "inference_request_failure with reason"
        : undefined,
    covers: isTriton,
  },
  {
    ...{ of: "trtllm", id: "_statistics", span: "of 2023, with _statistics" },
    evidence: ({ names }) => [...names].find((name) => name.endsWith("_statistics")),
    covers: () => false,
  },
  {
    ...{ of: "trtllm", id: "without waiting", span: "of 2023 and 2024, without waiting, reused and fraction" },
    evidence: ({ samples, isWhole }) => {
      const requests = valuesOf(samples("request_metrics"), "request_type");
      const blocks = valuesOf(samples("kv_cache_block_metrics"), "kv_cache_block_type");
      const isOld = requests.size > 0 && !requests.has("waiting") && !blocks.has("reused") && !blocks.has("fraction");
      return isOld && isWhole ? "no waiting, reused or fraction" : undefined;
    },
    // Versions up to 0.11 lack the series `waiting` (tensorrtllm_backend#537).
    covers: (version) => isVllm(version) && below(version, "0.12"),
  },
  {
    ...{ of: "trtllm", id: "with waiting", span: "with waiting, reused and fraction" },
    evidence: ({ samples }) =>
      valuesOf(samples("request_metrics"), "request_type").has("waiting") ? "waiting" : undefined,
    covers: isTrtllm,
  },
  {
    ...{ of: "trtllm-serve", id: "1.0 to 1.2", span: "1.0 to 1.2" },
    evidence: (page) => {
      const isNew = [...page.names].some(isSince13);
      const hasEnds = page.names.has("request_success_total") || page.names.has("e2e_request_latency_seconds_count");
      return page.isWhole && hasEnds && !isNew ? "no prompt_tokens_total" : undefined;
    },
    covers: (version) => isTrtllm(version) && below(version, "1.3"),
  },
  {
    ...{ of: "trtllm-serve", id: "1.3", span: "1.3 or later" },
    evidence: (page) => [...page.names].find(isSince13),
    covers: isTrtllm,
  },
  {
    ...{ of: "dynamo-frontend", id: "before requests_total", span: "before requests_total" },
    evidence: (page) => firstOf(page, ["request_success_count"]),
    covers: () => false,
  },
  {
    ...{ of: "dynamo-frontend", id: "with requests_total", span: "with requests_total" },
    evidence: (page) => firstOf(page, ["requests_total"]),
    covers: () => false,
  },
];

/**
 * Returns the version range of a dialect. Null if its versions do not differ. `callerVersions`: versions that the caller gave.
 * `isMapped`: true if the caller mapped the families of a custom engine, so that only the caller can know the version.
 */
export function versionOf(
  exposition: Exposition,
  dialect: CheckedDialect,
  callerVersions: readonly string[],
  isMapped = false,
): PageVersion | null {
  const rows = VERSIONS.filter(({ of }) => of === dialect.name);
  const newest = rows.at(-1);
  if (newest === undefined) return null;
  for (const version of callerVersions) {
    const row = rows.find(({ covers }) => covers(plain(version)));
    if (row !== undefined) return recognised(row, `--engine-version ${version}`);
  }
  if (isMapped) return recognised(newest, "");
  const own = (all: Iterable<string>) =>
    new Set(
      [...all].filter((name) => name.startsWith(dialect.prefix)).map((name) => name.slice(dialect.prefix.length)),
    );
  const page: DialectPage = {
    names: own(exposition.byName.keys()),
    declared: own(exposition.families.keys()),
    samples: (name) => exposition.byName.get(dialect.prefix + name) ?? [],
    isWhole: exposition.excerpt === null,
  };
  for (const row of rows) {
    const toldBy = row.evidence(page);
    if (toldBy !== undefined) return recognised(row, toldBy);
  }
  return recognised(newest, "");
}

const recognised = ({ of, id, span }: Row, toldBy: string): PageVersion => ({ of, id, span, toldBy });

const plain = (version: string): string => version.replace(/^v(?=\d)/i, "");

/** Reports whether any dialect has such a version. */
export const isVersion = (text: string): boolean => VERSIONS.some(({ covers }) => covers(plain(text)));

/** Returns the version ranges of a dialect, oldest first. */
export const versionsOf = (dialect: DialectName): readonly VersionId[] =>
  VERSIONS.filter(({ of }) => of === dialect).map(({ id }) => id);
