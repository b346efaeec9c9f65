/**
 * Tells the dialects of a page by the prefixes of its families, and its engines or models by labels. A page may have
 * several dialects. The names are canonical here: `naming.ts` has removed foreign prefixes and added missing ones.
 */
import { type Exposition, labelKey, type ScrapedLabels, type ScrapedSample } from "./exposition.ts";
import type { DialectName } from "./law.ts";

/** A server whose metrics are known. */
export interface CheckedDialect {
  /** As reports have it. */
  readonly name: DialectName;
  /** Prefix of its families; foreign and missing prefixes count as this one. */
  readonly prefix: string;
  /** Labels that tell one engine or model from another: laws hold for each. */
  readonly groupBy: readonly string[];
  /** The families are pushed to a collector one by one, so a page is not one instant. */
  readonly collected?: true;
}

/** All servers whose metrics are known. */
export const dialects: readonly CheckedDialect[] = [
  // Triton's vLLM backend has the same names under model and version.
  { name: "vllm", prefix: "vllm:", groupBy: ["engine", "model_name", "model", "version"] },
  { name: "trtllm", prefix: "nv_trt_llm_", groupBy: ["model", "version"] },
  { name: "triton", prefix: "nv_", groupBy: ["model", "version", "namespace"] },
  { name: "trtllm-serve", prefix: "trtllm_", groupBy: ["engine_type", "model_name"] },
  { name: "dynamo-frontend", prefix: "dynamo_frontend_", groupBy: ["model"] },
  { name: "dynamo-worker", prefix: "dynamo_component_", groupBy: ["worker_id", "dynamo_endpoint"] },
  { name: "dcgm", prefix: "DCGM_FI_", groupBy: ["UUID"] },
  { name: "understudy", prefix: "understudy_", groupBy: [] },
  { name: "sglang", prefix: "sglang:", groupBy: ["model_name", "engine_type", "tp_rank"] },
  // On the page the prefix is vLLM's; `naming.ts` tells the two apart.
  { name: "vllm-router", prefix: "vllm_router:", groupBy: ["server"] },
];

/** Reports whether a family has the prefix of a server that is known here. */
export const isOfKnownServer = (name: string): boolean => dialects.some(({ prefix }) => name.startsWith(prefix));

/** TensorRT-LLM's families share Triton's prefix; Triton is there only with its own. */
const TRITON = /^nv_(?!trt_llm_|llm_)/;

/** The dialects of a page with canonical names. A family that is declared and has no series counts. */
export function recogniseByPrefix({ byName, families }: Exposition): readonly CheckedDialect[] {
  const found = new Set<DialectName>();
  for (const name of [...byName.keys(), ...families.keys()]) {
    for (const dialect of dialects) {
      if (dialect.name === "triton" ? TRITON.test(name) : name.startsWith(dialect.prefix)) found.add(dialect.name);
    }
  }
  return dialects.filter(({ name }) => found.has(name));
}

/** Engines or models of one page that are looked at, each for itself; a page with more has something else in a label. */
export const GROUPS_MOST = 256;

/** One engine or model, and the series of all families that are its own or everybody's. */
export interface Group {
  /** What tells it from the others. */
  readonly labels: ScrapedLabels;
  /** Samples by their own name. */
  readonly byName: Exposition["byName"];
}

export interface Groups {
  /** By `keyOf(labels)`. */
  readonly all: ReadonlyMap<string, Group>;
  /** Beyond the most that are looked at. */
  readonly leftOut: number;
}

export const groupKey = (labels: ScrapedLabels): string => labelKey(labels);

/** The engines or models of a dialect, by the labels of its series. One empty group when no series has any. */
export function groupsOf({ byName }: Exposition, { prefix, groupBy }: CheckedDialect): Groups {
  const ownLabels = (labels: ScrapedLabels): ScrapedLabels => {
    const own: Record<string, string> = {};
    for (const label of groupBy) if (labels[label] !== undefined) own[label] = labels[label];
    return own;
  };
  const found = new Map<string, ScrapedLabels>();
  for (const [name, samples] of byName) {
    if (!name.startsWith(prefix)) continue;
    for (const { labels } of samples) {
      const own = ownLabels(labels);
      found.set(groupKey(own), own);
    }
  }
  const kept = [...found.values()].slice(0, GROUPS_MOST);
  const groups = kept.filter((one) => !kept.some((other) => other !== one && isPartOf(one, other)));
  const leftOut = found.size - kept.length;
  const [only = {}] = groups;
  if (groups.length < 2 && leftOut === 0)
    return { all: new Map([[groupKey(only), { labels: only, byName }]]), leftOut };

  const all = new Map(
    groups.map((labels) => [groupKey(labels), { labels, byName: new Map<string, ScrapedSample[]>() }]),
  );
  for (const [name, samples] of byName) {
    for (const sample of samples) {
      const own = ownLabels(sample.labels);
      const exact = all.get(groupKey(own));
      if (exact) add(exact.byName, name, sample);
      else for (const group of all.values()) if (isPartOf(own, group.labels)) add(group.byName, name, sample);
    }
  }
  return { all, leftOut };
}

function add(byName: Map<string, ScrapedSample[]>, name: string, sample: ScrapedSample): void {
  const same = byName.get(name);
  if (same) same.push(sample);
  else byName.set(name, [sample]);
}

/** A series without a label belongs to all that have it. */
function isPartOf(small: ScrapedLabels, large: ScrapedLabels): boolean {
  const names = Object.keys(small);
  return names.length < Object.keys(large).length && names.every((name) => small[name] === large[name]);
}
