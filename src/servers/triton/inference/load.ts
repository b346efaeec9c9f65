/** Loads a model version from its folder: behaviour, scheduler, instances and warm-up. */

import { type EventLoopTurns, inTurns, type Pieces } from "../../../base/pieces.ts";
import type { ModelHost } from "../behaviours/behaviour.ts";
import { behaviourOf, type FoundBehaviour, hasBehaviourFile } from "../behaviours/table.ts";
import type { TritonLoadTime } from "../config/triton-config.ts";
import type { DeviceMemory, MemoryReservation } from "../devices/device-memory.ts";
import { BACKENDS } from "../model-config/backends.ts";
import {
  gpusOf,
  instanceCount,
  instancesOf,
  isEnsemble,
  type ModelConfig,
  maxBatchSize,
  type QueuePolicy,
  type SequenceBatching,
} from "../model-config/model-config.ts";
import { internal, invalidArg, type StatusCode, TritonError } from "../model-config/status.ts";
import { wrongGroups, wrongTensors } from "../model-config/validate-tensors.ts";
import { classLabels, withLabelsOfSteps } from "../models/labels.ts";
import type { FoundModel } from "../models/repository.ts";
import { configuredWeights, versionWeightBytes } from "../models/weights.ts";
import { DynamicBatcher } from "../scheduling/dynamic-batcher.ts";
import type { WaitPolicy } from "../scheduling/policy-queue.ts";
import type { LimitedInstance } from "../scheduling/rate-limiter.ts";
import { DefaultScheduler, type Scheduler } from "../scheduling/scheduler.ts";
import { SequenceBatcher } from "../scheduling/sequence-batcher.ts";
import type { SequenceRules } from "../scheduling/sequences.ts";
import { elementCount } from "../tensors/datatypes.ts";
import type { LoadCounts } from "./counted.ts";
import { EnsembleModel } from "./ensemble.ts";
import { raised } from "./execution.ts";
import { ImplicitStates } from "./implicit-state.ts";
import type { InferRequest } from "./request.ts";
import { Runner } from "./runner.ts";
import type { ModelVersion, SharedParts } from "./served.ts";
import { warmUp } from "./warm-up.ts";

export interface ModelLoadDeps {
  readonly shared: SharedParts;
  /** Yields to the event loop between pieces of large work. */
  readonly turns: EventLoopTurns;
  /** Finds the behaviour of a model whose folder defines none. */
  readonly backends: (config: ModelConfig) => FoundBehaviour | undefined;
  /** Returns a random number from 0 to below 1. */
  readonly random: () => number;
  readonly sleep: (ms: number) => Promise<void>;
  readonly shapeFor: (model: string, output: string) => readonly number[] | undefined;
  readonly find: (name: string, version: number) => ModelVersion;
  readonly stream: ModelHost["stream"];
}

export interface LoadedModel {
  readonly model: ModelVersion;
  /** Origin of the behaviour, for the log. */
  readonly from: string;
}

const GIB = 2 ** 30;

/** Prefixes of reasons by error code. Other codes count as a bad argument. */
const CODES: Readonly<Partial<Record<StatusCode, string>>> = {
  INTERNAL: "Internal",
  UNAVAILABLE: "Unavailable",
  UNSUPPORTED: "Unsupported",
};

/** Returns the reason for an unavailable version, as the repository index shows it. */
export const unavailableReason = ({ code, message }: TritonError): string =>
  `${CODES[code] ?? "Invalid argument"}: ${message}`;

export const loadSeconds = ({ baseS, perGibS }: TritonLoadTime, weightBytes: number): number =>
  baseS + (perGibS * weightBytes) / GIB;

/** True if the engine computes the model, so that the model needs the engine's weights and KV blocks. */
export const isOfEngine = ({ config, path, repository }: FoundModel, backends: ModelLoadDeps["backends"]): boolean =>
  !isEnsemble(config) && !(repository !== "" && hasBehaviourFile(path)) && backends(config)?.ofEngine === true;

/** Reserves the GPU memory of a version. Throws a `TritonError` if it does not fit. */
export function takeMemory(
  folder: FoundModel,
  version: number,
  memory: DeviceMemory,
  backends: ModelLoadDeps["backends"],
): MemoryReservation {
  const { config, name } = folder;
  const gpus = gpusOf(config);
  const bytes = () => (isEnsemble(config) ? 0 : versionWeightBytes(folder, version));
  const taken = isOfEngine(folder, backends) ? memory.takeEngine() : memory.take(name, bytes(), gpus);
  if (typeof taken === "string") throw internal(taken);
  const why = beyondLimit(config, memory);
  if (why !== null) {
    taken.give();
    throw new TritonError("UNAVAILABLE", why);
  }
  if (taken.text !== "" || configuredWeights(config) === undefined) return taken;
  return { ...taken, text: ", understudy_weights on no GPU, as no instance is of KIND_GPU" };
}

/**
 * Checks the GPU load limits after all instances exist, like `VerifyModelLoadGpuFraction`. Names the last group that exceeds
 * one.
 */
function beyondLimit({ instance_group: groups = [] }: ModelConfig, memory: DeviceMemory): string | null {
  for (const { kind, name, count = 1, gpus = [] } of groups.toReversed()) {
    const gpu = kind === "KIND_GPU" ? gpus.findLast((id) => memory.isBeyondLimit(id)) : undefined;
    if (gpu !== undefined)
      return `can not create model '${name}_${count - 1}': memory limit set for GPU ${gpu} has exceeded, model loading is rejected.`;
  }
  return null;
}

/** Loads a version. Rejects with a `TritonError` that says why the version is not available. */
export async function loadVersion(
  folder: FoundModel,
  version: number,
  { statistics, onGpus }: LoadCounts,
  around: ModelLoadDeps,
): Promise<LoadedModel> {
  const { config, path } = folder;
  const { shared } = around;
  checkSize(config);
  await inTurns(checkConfig(config), around.turns);
  const labels = classLabels(folder);
  if (isEnsemble(config)) {
    const { find } = around;
    const named = withLabelsOfSteps(labels, config, find);
    const model = new EnsembleModel({ config, labels: named, version, statistics, find, shared });
    return { model, from: `${config.ensemble_scheduling?.step?.length ?? 0} steps` };
  }
  const file = `${path}/${version}/${config.default_model_filename ?? "model.py"}`;
  const found = await behaviourOf(folder.repository === "" ? null : path, config, around.backends).catch(
    (error: Error) => {
      throw internal(error.message);
    },
  );
  const host = (die: () => void, gpu: number | null = null): ModelHost => {
    const modelHost = { ...hostOf(folder, version, around), die };
    return gpu === null ? modelHost : { ...modelHost, compute: (ms) => shared.gpus.compute(gpu, ms * 1000) };
  };
  try {
    await found.behaviour.initialize?.(host(() => {}));
  } catch (error) {
    throw internal(raised(error, file, "initialize"));
  }
  const limited = shared.limiter?.register(limitedInstances(config)) ?? null;
  const scheduler = schedulerOf(config, limited !== null);
  const model = new Runner({
    config,
    labels,
    version,
    behaviour: found.behaviour,
    statistics,
    onGpus,
    scheduler,
    limited,
    file,
    host,
    shared,
    states: config.sequence_batching?.state?.length ? new ImplicitStates(config, path) : null,
  });
  try {
    await warmUp(model, { ...around, path });
  } catch (error) {
    model.unloaded();
    throw error;
  }
  return { model, from: found.from };
}

function hostOf({ config, path }: FoundModel, version: number, around: ModelLoadDeps): Omit<ModelHost, "die"> {
  const { random, sleep, stream, shapeFor } = around;
  const infer: ModelHost["infer"] = async (model, inputs) => {
    for await (const response of stream(model, inputs)) return response;
    return { outputs: [] };
  };
  const { name } = config;
  const folder = `${path}/${version}`;
  return {
    name,
    version,
    config,
    folder,
    random,
    sleep,
    compute: sleep,
    infer,
    stream,
    shapeFor: (output) => shapeFor(name, output),
  };
}

/** Limits of a model. The real server would try to load a larger one. */
const MOST = { instances: 10_000, levels: 10_000, slots: 100_000, warmups: 100_000, warmupBytes: 64 * 2 ** 20 };

/** Throws a `TritonError` if the model exceeds these limits. */
function checkSize(config: ModelConfig): void {
  const instances = instanceCount(config);
  const most = (what: string, count: number, limit: number) => {
    if (count > limit) throw invalidArg(`model '${config.name}' has ${count} ${what}: a stand-in takes ${limit}`);
  };
  most("instances", instances, MOST.instances);
  most("priority levels", config.dynamic_batching?.priority_levels ?? 0, MOST.levels);
  if (config.sequence_batching) {
    const { slots } = sequenceRules(config, config.sequence_batching, instances);
    most("slots of sequences", slots * instances, MOST.slots);
  }
  for (const { name = "", count = 0, batch_size: batch = 0, inputs = {} } of config.model_warmup ?? []) {
    most(`requests in warm-up ${name}`, Math.max(1, count) * batch * instances, MOST.warmups);
    for (const { dims = [] } of Object.values(inputs))
      most(`bytes in a tensor of warm-up ${name}`, 8 * elementCount(dims), MOST.warmupBytes);
  }
}

/** Validates the parts of a configuration that Triton validates at load time. Throws a `TritonError`. */
function* checkConfig(config: ModelConfig): Pieces<void> {
  const { backend = "" } = config;
  if (!isEnsemble(config)) {
    if (BACKENDS[backend] === undefined)
      throw invalidArg(
        `unable to find backend library for backend '${backend}', try specifying runtime on the model configuration.`,
      );
    const groups = yield* wrongGroups(config);
    if (groups !== undefined) throw invalidArg(groups);
  }
  const tensors = yield* wrongTensors(config);
  if (tensors !== undefined) throw invalidArg(tensors);
}

const limitedInstances = (config: ModelConfig): LimitedInstance[] =>
  instancesOf(config).map(({ device, group: { rate_limiter: { resources = [], priority = 0 } = {} } }) => ({
    device,
    priority,
    resources: resources.map(({ name = "", global = false, count = 0 }) => ({ name, global, count })),
  }));

/** Returns the scheduler. `limited`: instances also wait for resources of the rate limiter. */
function schedulerOf(config: ModelConfig, limited: boolean): Scheduler<InferRequest> {
  const batching = config.dynamic_batching;
  const instances = instanceCount(config);
  if (config.sequence_batching) return new SequenceBatcher(sequenceRules(config, config.sequence_batching, instances));
  if (batching === undefined) return new DefaultScheduler(limited ? Number.POSITIVE_INFINITY : instances);
  const policies = Object.entries(batching.priority_queue_policy ?? {});
  return new DynamicBatcher({
    instances,
    limited,
    maxBatchSize: maxBatchSize(config),
    preferred: [...(batching.preferred_batch_size ?? [])].sort((a, b) => a - b),
    delayUs: batching.max_queue_delay_microseconds ?? 0,
    looksAtEach: comparesShapes(config),
    levels: batching.priority_levels ?? 0,
    defaultLevel: batching.default_priority_level ?? 0,
    policy: policyOf(batching.default_queue_policy ?? {}),
    policies: new Map(policies.map(([level, policy]) => [Number(level), policyOf(policy)])),
  });
}

function sequenceRules(config: ModelConfig, sequences: SequenceBatching, instances: number): SequenceRules {
  const { oldest, direct, max_sequence_idle_microseconds: idleUs = 0 } = sequences;
  const most = maxBatchSize(config);
  const more = { model: config.name, instances, idleUs, iterative: sequences.iterative_sequence ?? false };
  if (oldest === undefined) {
    const delayUs = direct?.max_queue_delay_microseconds ?? 0;
    const strategy = { kind: "direct" as const, delayUs, leastUse: direct?.minimum_slot_utilization ?? 0 };
    return { ...more, slots: Math.max(1, most), strategy };
  }
  const preferred = [...(oldest.preferred_batch_size ?? [])].sort((a, b) => a - b);
  const delayUs = oldest.max_queue_delay_microseconds ?? 0;
  const slots = oldest.max_candidate_sequences || Math.max(1, most);
  return {
    ...more,
    slots,
    strategy: { kind: "oldest", maxBatchSize: most, preferred, delayUs, looksAtEach: comparesShapes(config) },
  };
}

/** True if requests may be too different to share a batch (`TritonModel::SetConfiguredScheduler` in `backend_model.cc`). */
const comparesShapes = ({ input = [] }: ModelConfig): boolean =>
  input.some((one) => one.is_shape_tensor === true || (one.allow_ragged_batch !== true && one.dims.includes(-1)));

const policyOf = (policy: QueuePolicy): WaitPolicy => ({
  action: policy.timeout_action ?? "REJECT",
  timeoutUs: policy.default_timeout_microseconds ?? 0,
  mayOverride: policy.allow_timeout_override ?? false,
  mostWaiting: policy.max_queue_size ?? 0,
});
