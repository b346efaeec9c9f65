/** What is counted of a version, from its first load on? Failures outlive an unload, also those of each GPU. */
import type { QuantileTarget } from "../../metrics/triton/quantiles.ts";
import { gpusOf } from "../../repository/config/model-config.ts";
import type { FoundModel } from "../../repository/models/repository.ts";
import type { Served } from "./served.ts";
import { type FailureCounts, ModelStatistics, noFailures } from "./statistics.ts";

/** What metrics show of a version that was ever loaded. */
export interface CountedModel {
  readonly name: string;
  readonly version: number;
  readonly failures: FailureCounts;
  /** Those of them that instances on a GPU reported. */
  readonly failuresOn: Map<number, FailureCounts>;
  /** null: it is not loaded. */
  served: Served | null;
  folder: FoundModel;
}

export const neverLoaded = (folder: FoundModel, version: number): CountedModel => ({
  ...{ name: folder.name, version, failures: noFailures(), failuresOn: new Map(), served: null, folder },
});

/** Statistics of one load. `byGpu`: what instances on GPUs report is counted by GPU, too. */
export function newStatistics(
  { failures, failuresOn }: CountedModel,
  { config }: FoundModel,
  byGpu: boolean,
  targets: readonly QuantileTarget[],
  nowUs: number,
  firstResponseMs: readonly number[],
): ModelStatistics {
  const onGpus = new Map<number, FailureCounts>();
  for (const gpu of byGpu ? gpusOf(config) : []) {
    const own = failuresOn.get(gpu) ?? noFailures();
    failuresOn.set(gpu, own);
    onGpus.set(gpu, own);
  }
  return new ModelStatistics(failures, targets, nowUs, firstResponseMs, onGpus);
}
