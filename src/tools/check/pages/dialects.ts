/**
 * Recognises the dialects of a page by the prefixes of its families, and the engines or models of each dialect by labels. A
 * page may contain several dialects. Names are canonical here, because `naming.ts` has replaced foreign and missing prefixes.
 */
import { type Exposition, labelKey, type ScrapedLabels, type ScrapedSample } from "./exposition.ts";
import type { DialectName } from "./law.ts";

/** A server whose metrics are known. */
export interface CheckedDialect {
  /** Name in reports and options. */
  readonly name: DialectName;
  /** Prefix of its families. */
  readonly prefix: string;
  /** Labels that distinguish the engines or models. Laws hold for each of them separately. */
  readonly groupBy: readonly string[];
  /** True if a collector receives the families one by one, so that a page mixes values from different moments. */
  readonly collected?: true;
}

/** All servers whose metrics are known. */
export const dialects: readonly CheckedDialect[] = [
  // Triton's vLLM backend writes the same names with the labels model and version.
  { name: "vllm", prefix: "vllm:", groupBy: ["engine", "model_name", "model", "version"] },
  { name: "trtllm", prefix: "nv_trt_llm_", groupBy: ["model", "version"] },
  { name: "triton", prefix: "nv_", groupBy: ["model", "version", "namespace"] },
  { name: "trtllm-serve", prefix: "trtllm_", groupBy: ["engine_type", "model_name"] },
  { name: "dynamo-frontend", prefix: "dynamo_frontend_", groupBy: ["model"] },
  { name: "dynamo-worker", prefix: "dynamo_component_", groupBy: ["worker_id", "dynamo_endpoint"] },
  { name: "dcgm", prefix: "DCGM_FI_", groupBy: ["UUID"] },
  { name: "understudy", prefix: "understudy_", groupBy: [] },
  { name: "sglang", prefix: "sglang:", groupBy: ["model_name", "engine_type", "tp_rank"] },
  // On the page its prefix is vLLM's. `naming.ts` distinguishes the router from an engine and changes the prefix.
  { name: "vllm-router", prefix: "vllm_router:", groupBy: ["server"] },
];

/** Reports whether a family has the prefix of a known server. */
export const isOfKnownServer = (name: string): boolean => dialects.some(({ prefix }) => name.startsWith(prefix));

/** Matches Triton's own families. TensorRT-LLM's have the same prefix and do not show that Triton is there. */
const TRITON = /^nv_(?!trt_llm_|llm_)/;

/** Returns the dialects of a page with canonical names. A declared family counts even if it has no series. */
export function recogniseByPrefix({ byName, families }: Exposition): readonly CheckedDialect[] {
  const names = new Set<DialectName>();
  for (const name of [...byName.keys(), ...families.keys()]) {
    for (const dialect of dialects) {
      if (dialect.name === "triton" ? TRITON.test(name) : name.startsWith(dialect.prefix)) names.add(dialect.name);
    }
  }
  return dialects.filter(({ name }) => names.has(name));
}

/**
 * Maximum number of engines or models that are judged per page. On a page with more, the labels that should distinguish engines
 * or models contain other values.
 */
export const GROUPS_MOST = 256;

/** One engine or model, with the series of its own and those that belong to all engines or models. */
export interface Group {
  /** Labels that distinguish this engine or model from the others on the page. */
  readonly labels: ScrapedLabels;
  /** Samples by full name, such as `x_bucket`. */
  readonly byName: Exposition["byName"];
}

export interface Groups {
  /** Groups by `groupKey(labels)`. */
  readonly all: ReadonlyMap<string, Group>;
  /** Number of groups that are not judged because there are too many. */
  readonly leftOut: number;
}

export const groupKey = (labels: ScrapedLabels): string => labelKey(labels);

/**
 * Returns the engines or models of a dialect, by the labels of its series. Returns one group without labels if no series has
 * such labels.
 */
export function groupsOf({ byName }: Exposition, { prefix, groupBy }: CheckedDialect): Groups {
  const groupLabelsOf = (labels: ScrapedLabels): ScrapedLabels => {
    const groupLabels: Record<string, string> = {};
    for (const label of groupBy) if (labels[label] !== undefined) groupLabels[label] = labels[label];
    return groupLabels;
  };
  const labelSets = new Map<string, ScrapedLabels>();
  for (const [name, samples] of byName) {
    if (!name.startsWith(prefix)) continue;
    for (const { labels } of samples) {
      const group = groupLabelsOf(labels);
      labelSets.set(groupKey(group), group);
    }
  }
  const judged = [...labelSets.values()].slice(0, GROUPS_MOST);
  const groups = judged.filter((labels) => !judged.some((other) => other !== labels && isPartOf(labels, other)));
  const leftOut = labelSets.size - judged.length;
  const [only = {}] = groups;
  if (groups.length < 2 && leftOut === 0)
    return { all: new Map([[groupKey(only), { labels: only, byName }]]), leftOut };

  const all = new Map(
    groups.map((labels) => [groupKey(labels), { labels, byName: new Map<string, ScrapedSample[]>() }]),
  );
  for (const [name, samples] of byName) {
    for (const sample of samples) {
      const labels = groupLabelsOf(sample.labels);
      const exact = all.get(groupKey(labels));
      if (exact) add(exact.byName, name, sample);
      else for (const group of all.values()) if (isPartOf(labels, group.labels)) add(group.byName, name, sample);
    }
  }
  return { all, leftOut };
}

function add(byName: Map<string, ScrapedSample[]>, name: string, sample: ScrapedSample): void {
  const same = byName.get(name);
  if (same) same.push(sample);
  else byName.set(name, [sample]);
}

/**
 * Reports whether `large` has all labels of `small` and more. A series with fewer labels belongs to every group that has them.
 */
function isPartOf(small: ScrapedLabels, large: ScrapedLabels): boolean {
  const names = Object.keys(small);
  return names.length < Object.keys(large).length && names.every((name) => small[name] === large[name]);
}
