/**
 * Declares the fields of a model configuration that this program reads, with protobuf's names. All fields are in `schema.ts`.
 */
import type { ConfigMessage } from "./pbtxt.ts";

export interface TensorConfig extends ConfigMessage {
  readonly name: string;
  /** A name such as `TYPE_FP32`. */
  readonly data_type: string;
  /** Dimensions without the batch dimension. -1 means any size. */
  readonly dims: readonly number[];
  readonly reshape?: ConfigMessage & { readonly shape?: readonly number[] };
  readonly optional?: boolean;
  readonly allow_ragged_batch?: boolean;
  readonly is_shape_tensor?: boolean;
  /** File in the model's folder with class names, one per line. Outputs only. */
  readonly label_filename?: string;
}

export interface QueuePolicy extends ConfigMessage {
  readonly timeout_action?: "REJECT" | "DELAY";
  readonly default_timeout_microseconds?: number;
  readonly allow_timeout_override?: boolean;
  /** Most queued requests. 0 or unset means no limit. */
  readonly max_queue_size?: number;
}

export interface DynamicBatching extends ConfigMessage {
  readonly preferred_batch_size?: readonly number[];
  readonly max_queue_delay_microseconds?: number;
  readonly preserve_ordering?: boolean;
  readonly priority_levels?: number;
  readonly default_priority_level?: number;
  readonly default_queue_policy?: QueuePolicy;
  readonly priority_queue_policy?: Readonly<Record<string, QueuePolicy>>;
}

export interface SequenceControl extends ConfigMessage {
  readonly kind?: string;
  readonly int32_false_true?: readonly number[];
  readonly fp32_false_true?: readonly number[];
  readonly bool_false_true?: readonly boolean[];
  readonly data_type?: string;
}

export interface SequenceState extends ConfigMessage {
  readonly input_name?: string;
  readonly output_name?: string;
  readonly data_type?: string;
  readonly dims?: readonly number[];
  readonly initial_state?: readonly (ConfigMessage & {
    readonly data_type?: string;
    readonly dims?: readonly number[];
    readonly data_file?: string;
  })[];
}

export interface SequenceBatching extends ConfigMessage {
  readonly max_sequence_idle_microseconds?: number;
  readonly iterative_sequence?: boolean;
  readonly state?: readonly SequenceState[];
  readonly direct?: ConfigMessage & {
    readonly max_queue_delay_microseconds?: number;
    readonly minimum_slot_utilization?: number;
  };
  readonly oldest?: ConfigMessage & {
    readonly max_candidate_sequences?: number;
    readonly preferred_batch_size?: readonly number[];
    readonly max_queue_delay_microseconds?: number;
    readonly preserve_ordering?: boolean;
  };
  readonly control_input?: readonly (ConfigMessage & {
    readonly name?: string;
    readonly control?: readonly SequenceControl[];
  })[];
}

export interface InstanceGroup extends ConfigMessage {
  readonly name?: string;
  readonly kind?: string;
  readonly count?: number;
  readonly gpus?: readonly number[];
  readonly rate_limiter?: ConfigMessage & {
    readonly resources?: readonly (ConfigMessage & {
      readonly name?: string;
      readonly global?: boolean;
      readonly count?: number;
    })[];
    readonly priority?: number;
  };
}

export interface EnsembleStep extends ConfigMessage {
  readonly model_name?: string;
  readonly model_version?: number;
  readonly input_map?: Readonly<Record<string, string>>;
  readonly output_map?: Readonly<Record<string, string>>;
}

export interface WarmupInput extends ConfigMessage {
  readonly data_type?: string;
  readonly dims?: readonly number[];
  readonly zero_data?: boolean;
  readonly random_data?: boolean;
  /** Name of a file in the model's folder `warmup`. */
  readonly input_data_file?: string;
}

export interface Warmup extends ConfigMessage {
  readonly name?: string;
  readonly batch_size?: number;
  readonly count?: number;
  readonly inputs?: Readonly<Record<string, WarmupInput>>;
}

export interface BatchTensor extends ConfigMessage {
  readonly kind?: string;
  readonly target_name?: readonly string[];
  readonly data_type?: string;
  readonly source_input?: readonly string[];
}

export interface VersionPolicy extends ConfigMessage {
  readonly latest?: ConfigMessage & { readonly num_versions?: number };
  readonly all?: ConfigMessage;
  readonly specific?: ConfigMessage & { readonly versions?: readonly number[] };
}

/** A normalised configuration: `normalize.ts` has filled in the defaults. */
export interface ModelConfig extends ConfigMessage {
  readonly name: string;
  readonly platform?: string;
  readonly backend?: string;
  readonly version_policy: VersionPolicy;
  readonly max_batch_size?: number;
  readonly input?: readonly TensorConfig[];
  readonly output?: readonly TensorConfig[];
  readonly batch_input?: readonly BatchTensor[];
  readonly batch_output?: readonly BatchTensor[];
  readonly dynamic_batching?: DynamicBatching;
  readonly sequence_batching?: SequenceBatching;
  readonly ensemble_scheduling?: ConfigMessage & { readonly step?: readonly EnsembleStep[] };
  readonly instance_group?: readonly InstanceGroup[];
  readonly default_model_filename?: string;
  readonly metric_tags?: Readonly<Record<string, string>>;
  readonly model_metrics?: ConfigMessage & {
    readonly metric_control?: readonly (ConfigMessage & {
      readonly metric_identifier?: ConfigMessage & { readonly family?: string };
      readonly histogram_options?: ConfigMessage & { readonly buckets?: readonly number[] };
    })[];
  };
  readonly parameters?: Readonly<Record<string, { readonly string_value?: string }>>;
  readonly model_warmup?: readonly Warmup[];
  readonly model_transaction_policy?: ConfigMessage & { readonly decoupled?: boolean };
  readonly response_cache?: ConfigMessage & { readonly enable?: boolean };
  readonly model_repository_agents?: ConfigMessage & {
    readonly agents?: readonly (ConfigMessage & { readonly name?: string })[];
  };
}

export const maxBatchSize = (config: ModelConfig): number => config.max_batch_size ?? 0;
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
