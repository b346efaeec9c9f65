/**
 * Declares the fields of a model configuration that this program reads, with protobuf's names. All fields are in `schema.ts`.
 */
import type { ConfigMessage } from "./pbtxt.ts";

/** A protobuf message of a configuration. Any of its fields may be absent. */
type Message<Fields> = ConfigMessage & { readonly [Name in keyof Fields]?: Fields[Name] };
type Numbers = readonly number[];
type Names = readonly string[];
type ByName<Value> = Readonly<Record<string, Value>>;

interface TensorFields {
  reshape: Message<{ shape: Numbers }>;
  optional: boolean;
  allow_ragged_batch: boolean;
  is_shape_tensor: boolean;
  /** File in the model's folder with class names, one per line. Outputs only. */
  label_filename: string;
}

export interface TensorConfig extends Message<TensorFields> {
  readonly name: string;
  /** A name such as `TYPE_FP32`. */
  readonly data_type: string;
  /** Dimensions without the batch dimension. -1 means any size. */
  readonly dims: Numbers;
}

export type QueuePolicy = Message<{
  timeout_action: "REJECT" | "DELAY";
  default_timeout_microseconds: number;
  allow_timeout_override: boolean;
  /** Most queued requests. 0 or unset means no limit. */
  max_queue_size: number;
}>;

interface BatchingFields {
  preferred_batch_size: Numbers;
  max_queue_delay_microseconds: number;
  preserve_ordering: boolean;
}

export type DynamicBatching = Message<
  BatchingFields & {
    priority_levels: number;
    default_priority_level: number;
    default_queue_policy: QueuePolicy;
    priority_queue_policy: ByName<QueuePolicy>;
  }
>;

export type SequenceControl = Message<{
  kind: string;
  int32_false_true: Numbers;
  fp32_false_true: Numbers;
  bool_false_true: readonly boolean[];
  data_type: string;
}>;

export type SequenceState = Message<{
  input_name: string;
  output_name: string;
  data_type: string;
  dims: Numbers;
  initial_state: readonly Message<{ data_type: string; dims: Numbers; data_file: string }>[];
}>;

export type SequenceBatching = Message<{
  max_sequence_idle_microseconds: number;
  iterative_sequence: boolean;
  state: readonly SequenceState[];
  direct: Message<{ max_queue_delay_microseconds: number; minimum_slot_utilization: number }>;
  oldest: Message<BatchingFields & { max_candidate_sequences: number }>;
  control_input: readonly Message<{ name: string; control: readonly SequenceControl[] }>[];
}>;

type RateLimiterResource = Message<{ name: string; global: boolean; count: number }>;

export type InstanceGroup = Message<{
  name: string;
  kind: string;
  count: number;
  gpus: Numbers;
  rate_limiter: Message<{ resources: readonly RateLimiterResource[]; priority: number }>;
}>;

export type EnsembleStep = Message<{
  model_name: string;
  model_version: number;
  input_map: ByName<string>;
  output_map: ByName<string>;
}>;

export type WarmupInput = Message<{
  data_type: string;
  dims: Numbers;
  zero_data: boolean;
  random_data: boolean;
  /** Name of a file in the model's folder `warmup`. */
  input_data_file: string;
}>;

export type Warmup = Message<{ name: string; batch_size: number; count: number; inputs: ByName<WarmupInput> }>;

export type BatchTensor = Message<{ kind: string; target_name: Names; data_type: string; source_input: Names }>;

export type VersionPolicy = Message<{
  latest: Message<{ num_versions: number }>;
  all: ConfigMessage;
  specific: Message<{ versions: Numbers }>;
}>;

type MetricControl = Message<{
  metric_identifier: Message<{ family: string }>;
  histogram_options: Message<{ buckets: Numbers }>;
}>;

interface ModelFields {
  platform: string;
  backend: string;
  max_batch_size: number;
  input: readonly TensorConfig[];
  output: readonly TensorConfig[];
  batch_input: readonly BatchTensor[];
  batch_output: readonly BatchTensor[];
  dynamic_batching: DynamicBatching;
  sequence_batching: SequenceBatching;
  ensemble_scheduling: Message<{ step: readonly EnsembleStep[] }>;
  instance_group: readonly InstanceGroup[];
  default_model_filename: string;
  metric_tags: ByName<string>;
  model_metrics: Message<{ metric_control: readonly MetricControl[] }>;
  parameters: ByName<{ readonly string_value?: string }>;
  model_warmup: readonly Warmup[];
  model_transaction_policy: Message<{ decoupled: boolean }>;
  response_cache: Message<{ enable: boolean }>;
  model_repository_agents: Message<{ agents: readonly Message<{ name: string }>[] }>;
}

/** A normalised configuration: `normalize.ts` has filled in the defaults. */
export interface ModelConfig extends Message<ModelFields> {
  readonly name: string;
  readonly version_policy: VersionPolicy;
}

export const maxBatchSize = (config: Pick<ModelConfig, "max_batch_size">): number => config.max_batch_size ?? 0;
export const isDecoupled = (config: ModelConfig): boolean => config.model_transaction_policy?.decoupled === true;
/** True for models of TensorRT-LLM's LLM API, whose sampling parameters are separate input tensors. */
export const isLlmApi = (config: Pick<ModelConfig, "input">): boolean => hasInput(config, "sampling_param_max_tokens");
/** Reports whether a model declares the input. */
export const hasInput = ({ input }: Pick<ModelConfig, "input">, wanted: string): boolean =>
  input?.some(({ name }) => name === wanted) === true;
export const isCached = (config: ModelConfig): boolean => config.response_cache?.enable === true;
export const isEnsemble = (config: ModelConfig): boolean => config.platform === "ensemble";

const devicesOf = ({ kind, gpus = [] }: InstanceGroup): readonly number[] => (kind === "KIND_GPU" ? gpus : [0]);

/** Returns the ids of the GPUs on which the model has instances, each once. */
export const gpusOf = ({ instance_group: groups = [] }: ModelConfig): readonly number[] => [
  ...new Set(groups.flatMap((group) => (group.kind === "KIND_GPU" ? devicesOf(group) : []))),
];

export const instanceCount = ({ instance_group: groups = [] }: ModelConfig): number =>
  groups.reduce((all, group) => all + (group.count ?? 1) * devicesOf(group).length, 0);

/** Lists all instances, each with its name, group and device. A group has `count` instances on each of its GPUs. */
export const instancesOf = ({ instance_group: groups = [] }: ModelConfig) =>
  groups.flatMap((group) =>
    Array.from({ length: group.count ?? 1 }, (_, at) =>
      devicesOf(group).map((device) => ({ name: `${group.name}_${at}`, group, device })),
    ).flat(),
  );

/** Returns the control of this kind and the name of its input tensor, or undefined if the configuration has no such control. */
export function controlOf(
  sequences: SequenceBatching | undefined,
  kind: string,
): { readonly name: string; readonly data_type?: string; readonly control: SequenceControl } | undefined {
  for (const { name = "", control: controls = [] } of sequences?.control_input ?? []) {
    // An unset kind means the first kind of the enumeration.
    const control = controls.find((candidate) => (candidate.kind ?? "CONTROL_SEQUENCE_START") === kind);
    if (control) return { name, control, ...(control.data_type ? { data_type: control.data_type } : {}) };
  }
  return undefined;
}

const textWithoutInstances = ({ instance_group: _, version_policy: __, ...config }: ModelConfig) =>
  JSON.stringify(config);

/**
 * Compares two configurations without their instance groups and version policies, as `EquivalentInNonInstanceGroupConfig` in
 * `model_config_utils.cc` does.
 */
export const equalExceptInstances = (one: ModelConfig, other: ModelConfig): boolean =>
  textWithoutInstances(one) === textWithoutInstances(other);
