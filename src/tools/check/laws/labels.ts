/**
 * The labels that the series of each server have. Warns about an unknown label that only some of the families have. Part of
 * law G13.
 */
import type { Case } from "../pages/case.ts";
import type { CheckedDialect } from "../pages/dialects.ts";
import { type ScrapedSample, seriesText } from "../pages/exposition.ts";
import { complaint, type DialectName, type Mismatch } from "../pages/law.ts";

/**
 * Known labels per server, from its source code (`versions.ts` names the sources). Families that end in `_info` are not
 * included.
 */
const LABELS: Readonly<Partial<Record<DialectName, readonly string[]>>> = {
  vllm: [
    ...["engine", "model_name", "le", "reason", "sleep_state", "source", "finished_reason", "stage", "status"],
    ...["position", "mode", "outcome", "request_type", "operation", "transfer_type", "tier", "result"],
    // Labels of Triton's vLLM backend.
    ...["model", "version"],
  ],
  triton: ["model", "version", "gpu_uuid", "namespace", "reason", "policy", "le", "quantile"],
  trtllm: [
    ...["model", "version", "request_type", "memory_type", "kv_cache_block_type", "disaggregated_serving_type"],
    ...["inflight_batcher_specific_metric", "v1_specific_metric", "general_type", "response_metric_type", "le"],
  ],
  "trtllm-serve": [
    ...["engine_type", "model_name", "finished_reason", "cache_level", "cache_tier", "token_position", "http_code"],
    ...["pid", "rank", "disaggregation_mode", "le"],
  ],
  "dynamo-frontend": [
    ...["model", "endpoint", "request_type", "status", "error_type", "operation", "migration_type", "outcome", "stage"],
    ...["phase", "class", "worker_id", "dp_rank", "worker_type", "policy_class", "reason", "lora", "router_id"],
    ...["worker", "le"],
  ],
  "vllm-router": ["server", "model", "error_type", "status", "algorithm", "decision", "reason", "le"],
  dcgm: [
    ...["gpu", "UUID", "uuid", "pci_bus_id", "device", "modelName", "Hostname", "hostname", "GPU_I_PROFILE"],
    ...["GPU_I_ID", "DCGM_FI_DRIVER_VERSION", "container", "namespace", "pod", "err_code", "err_msg", "nvlink"],
    ...["nvswitch", "cpu", "cpucore", "hpc_job", "window_size_in_ms", "vgpu"],
  ],
};

const SHARED_PREFIX: Readonly<Partial<Record<DialectName, RegExp>>> = {
  triton: /^nv_(?!trt_llm_|llm_)/,
  trtllm: /^nv_(trt_)?llm_/,
};

/** Prefix of labels that the user defines: Triton's `metric_tags` appear only on the series of the tagged model. */
const OWN_PREFIX: Readonly<Partial<Record<DialectName, string>>> = { triton: "_" };

/**
 * Share of families above which an unknown label is accepted, because collectors and Ray add their labels to nearly all
 * families.
 */
const ON_MOST = 0.5;

export function unknownLabels(c: Case, { name, prefix }: CheckedDialect): Mismatch[] {
  const known = LABELS[name];
  if (known === undefined) return [];
  const isOwn = (family: string) =>
    name in SHARED_PREFIX ? SHARED_PREFIX[name]!.test(family) : family.startsWith(prefix);
  const families = [...c.look.exposition.families.values()].filter(
    ({ name: family, samples }) => isOwn(family) && !family.endsWith("_info") && samples.length > 0,
  );
  const labels = new Map<string, { readonly first: ScrapedSample; families: number }>();
  for (const { samples } of families) {
    for (const [label, first] of oddLabels(samples, known, OWN_PREFIX[name])) {
      const before = labels.get(label);
      if (before) before.families++;
      else labels.set(label, { first, families: 1 });
    }
  }
  return [...labels].flatMap(([label, { first, families: count }]): Mismatch[] => {
    if (count > ON_MOST * families.length) return [];
    const series = seriesText(first.name, first.labels);
    return [
      { ...complaint(`${label} of ${series} is not a label of ${name}, and most families lack it`, 1), severity: "W" },
    ];
  });
}

function oddLabels(
  samples: readonly ScrapedSample[],
  known: readonly string[],
  prefix: string | undefined,
): Map<string, ScrapedSample> {
  const odd = new Map<string, ScrapedSample>();
  for (const sample of samples) {
    for (const label in sample.labels) {
      if (prefix !== undefined && label.startsWith(prefix)) continue;
      if (!known.includes(label) && !odd.has(label)) odd.set(label, sample);
    }
  }
  return odd;
}
