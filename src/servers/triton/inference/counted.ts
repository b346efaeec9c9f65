/**
 * What is counted of the versions that were ever loaded? What the metrics page shows belongs to a set of labels and goes on
 * while a model with these is there, so through a load that replaces one; failures outlive the last of them, also those of
 * each GPU: `MetricModelReporter::Create` (2026).
 */
import type { QuantileTarget } from "../../../metrics/ensemble/quantiles.ts";
import { gpusOf, isCached, type ModelConfig } from "../model-config/model-config.ts";
import type { FoundModel } from "../models/repository.ts";
import { type FailureCounts, firstResponseMs, ModelReporter, noFailures } from "./reporter.ts";
import type { Served } from "./served.ts";
import { ModelStatistics } from "./statistics.ts";

/** What metrics show of a version with its tags. */
export interface CountedModel {
  readonly name: string;
  readonly version: number;
  /** Those that no instance on a GPU reported. */
  readonly failures: FailureCounts;
  /** Those that instances on a GPU reported. */
  readonly failuresOn: Map<number, FailureCounts>;
  /** null: it is not loaded. */
  served: Served | null;
  folder: FoundModel;
}

/** What a load counts in. */
export interface LoadCounts {
  readonly statistics: ModelStatistics;
  /** What instances on each GPU are to report to; the statistics have it once the load has succeeded. */
  readonly onGpus: ReadonlyMap<number, ModelReporter>;
}

interface CountedOptions {
  /** What instances on GPUs report is counted by GPU. */
  readonly byGpu: boolean;
  readonly targets: readonly QuantileTarget[];
  readonly log: (line: string) => void;
}

/** Differs where labels do. */
const keyOf = ({ name, metric_tags: tags = {} }: ModelConfig, version: number): string =>
  JSON.stringify([name, version, Object.entries(tags).sort(([a], [b]) => (a < b ? -1 : 1))]);

export class CountedModels {
  readonly #all = new Map<string, CountedModel>();
  readonly #options: CountedOptions;

  constructor(options: CountedOptions) {
    this.#options = options;
  }

  get all(): readonly CountedModel[] {
    return [...this.#all.values()];
  }

  /** What a load counts in; `going`: that of the version before, which goes on. */
  forLoad({ config }: FoundModel, version: number, nowUs: number, going: ModelStatistics | null): LoadCounts {
    const { byGpu, targets, log } = this.#options;
    const counted = this.#all.get(keyOf(config, version));
    const before = counted?.served?.statistics;
    const make = (failures = noFailures(), bounds = firstResponseMs(config, log)) =>
      new ModelReporter(failures, isCached(config), targets, nowUs, bounds);
    const reporter = before?.reporter ?? make(counted?.failures);
    const onGpus = new Map<number, ModelReporter>();
    for (const gpu of byGpu ? gpusOf(config) : [])
      onGpus.set(gpu, before?.onGpus.get(gpu) ?? make(counted?.failuresOn.get(gpu), reporter.firstResponseMs));
    return { statistics: going ?? new ModelStatistics(reporter), onGpus };
  }

  /** What serves from now on. */
  serves(served: Served, folder: FoundModel, onGpus: LoadCounts["onGpus"]): void {
    const { name, version, statistics } = served;
    const { failures } = statistics.reporter;
    const key = keyOf(folder.config, version);
    const counted = this.#all.get(key) ?? { name, version, failures, failuresOn: new Map(), served, folder };
    statistics.onGpus = onGpus;
    for (const [gpu, own] of onGpus) counted.failuresOn.set(gpu, own.failures);
    this.#all.set(key, Object.assign(counted, { served, folder }));
  }

  /** Failures are left of a model that has ended, unless another has taken its place. */
  ended(served: Served): void {
    const counted = this.#all.get(keyOf(served.config, served.version));
    if (counted?.served === served) counted.served = null;
  }
}
