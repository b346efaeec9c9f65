/** The laws of vLLM's V1 engine: three tables in the order of their numbers. Families without the prefix `vllm:`. */
import type { Law } from "../law.ts";
import { counts, timeLaws } from "./vllm-counts.ts";
import { gauges } from "./vllm-gauges.ts";
import { whole } from "./vllm-whole.ts";

export const vllmLaws: readonly Law[] = [...gauges, ...counts, ...timeLaws, ...whole].sort((a, b) =>
  a.id.localeCompare(b.id),
);
