/**
 * Keeps the counters of every model version that was ever loaded. Counters of the metrics page belong to a set of labels and
 * continue through a reload. Failure counts also remain after an unload, per GPU too. Source: `MetricModelReporter::Create`
 * (2026).
 */
import type { QuantileTarget } from "../../../metrics/ensemble/quantiles.ts";
import { gpusOf, isCached, type ModelConfig } from "../model-config/model-config.ts";
import type { FoundModel } from "../models/repository.ts";
import { type FailureCounts, firstResponseMs, ModelReporter, noFailures } from "./reporter.ts";
import type { ModelVersion } from "./served.ts";
import { ModelStatistics } from "./statistics.ts";

/** Metrics of a version with certain tags. */
export interface CountedModel {
  readonly name: string;
  readonly version: number;
  /** Failures that no GPU instance reported. */
  readonly failures: FailureCounts;
  /** Failures by the GPU whose instances reported them. */
  readonly failuresOn: Map<number, FailureCounts>;
  /** The loaded version, or null. */
  served: ModelVersion | null;
  folder: FoundModel;
}

/** The counters of a load. */
export interface LoadCounts {
  readonly statistics: ModelStatistics;
  /** Counters of the instances on each GPU. The statistics use them once the load has succeeded. */
  readonly onGpus: ReadonlyMap<number, ModelReporter>;
}

interface CountedOptions {
  /** True if instances on GPUs count per GPU. */
  readonly byGpu: boolean;
  readonly targets: readonly QuantileTarget[];
  readonly log: (line: string) => void;
}

/** Returns a key that differs if the labels differ. */
const keyOf = ({ name, metric_tags: tags = {} }: ModelConfig, version: number): string =>
  JSON.stringify([name, version, Object.entries(tags).sort(([a], [b]) => (a < b ? -1 : 1))]);

export class CountedModels {
  readonly #all = new Map<string, CountedModel>();

  constructor(private readonly options: CountedOptions) {}

  get all(): readonly CountedModel[] {
    return [...this.#all.values()];
  }

  /** Returns the counters for a load. `going`: statistics of the previous version, if they continue. */
  forLoad({ config }: FoundModel, version: number, nowUs: number, going: ModelStatistics | null): LoadCounts {
    const { byGpu, targets, log } = this.options;
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

  /** Records the version that serves from now on. */
  serves(served: ModelVersion, folder: FoundModel, onGpus: LoadCounts["onGpus"]): void {
    const { name, version, statistics } = served;
    const { failures } = statistics.reporter;
    const key = keyOf(folder.config, version);
    const counted = this.#all.get(key) ?? { name, version, failures, failuresOn: new Map(), served, folder };
    statistics.onGpus = onGpus;
    for (const [gpu, gpuReporter] of onGpus) counted.failuresOn.set(gpu, gpuReporter.failures);
    this.#all.set(key, Object.assign(counted, { served, folder }));
  }

  /** Marks the version as not loaded, unless another one has replaced it. Its failure counts remain. */
  ended(served: ModelVersion): void {
    const counted = this.#all.get(keyOf(served.config, served.version));
    if (counted?.served === served) counted.served = null;
  }
}
