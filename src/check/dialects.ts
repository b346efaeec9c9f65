/** Whose metrics are these? A scrape may speak several dialects at once. */
import type { Exposition, Labels } from "./exposition.ts";
import type { DialectName } from "./law.ts";

export interface Dialect {
  readonly name: DialectName;
  readonly prefix: string;
  /** Labels that tell one engine or model from another: laws hold for each. */
  readonly groupBy: readonly string[];
}

export const dialects: readonly Dialect[] = [
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
];

/** TensorRT-LLM's families share Triton's prefix; Triton is there only with its own. */
const TRITON = /^nv_(?!trt_llm_|llm_)/;

export function recognise({ byName }: Exposition): readonly Dialect[] {
  const found = new Set<DialectName>();
  for (const name of byName.keys()) {
    for (const dialect of dialects) {
      if (dialect.name === "triton" ? TRITON.test(name) : name.startsWith(dialect.prefix)) found.add(dialect.name);
    }
  }
  return dialects.filter(({ name }) => found.has(name));
}

/** The engines or models of a dialect, by the labels of its series. One empty group when no series has any. */
export function groupsOf({ byName }: Exposition, { prefix, groupBy }: Dialect): readonly Labels[] {
  const found = new Map<string, Labels>();
  for (const [name, samples] of byName) {
    if (!name.startsWith(prefix)) continue;
    for (const { labels } of samples) {
      const group: Record<string, string> = {};
      for (const label of groupBy) if (labels[label] !== undefined) group[label] = labels[label];
      const key = JSON.stringify(group);
      if (!found.has(key)) found.set(key, group);
    }
  }
  const all = [...found.values()];
  const groups = all.filter((one) => !all.some((other) => other !== one && isPartOf(one, other)));
  return groups.length > 0 ? groups : [{}];
}

function isPartOf(small: Labels, large: Labels): boolean {
  const names = Object.keys(small);
  return names.length < Object.keys(large).length && names.every((name) => small[name] === large[name]);
}
