/** What does the program read of a configuration? The fields of `schema.ts` that are used, in protobuf's names. */
import type { ConfigMessage } from "./pbtxt.ts";

export interface TensorConfig extends ConfigMessage {
  readonly name: string;
  /** `TYPE_…` */
  readonly data_type: string;
  /** Without the batch's dimension; -1: any size. */
  readonly dims: readonly number[];
  readonly reshape?: ConfigMessage & { readonly shape?: readonly number[] };
  readonly optional?: boolean;
  readonly allow_ragged_batch?: boolean;
  readonly is_shape_tensor?: boolean;
  /** File in the model's folder, of an output: a line is the name of a class. */
  readonly label_filename?: string;
}

export interface QueuePolicy extends ConfigMessage {
  readonly timeout_action?: "REJECT" | "DELAY";
  readonly default_timeout_microseconds?: number;
  readonly allow_timeout_override?: boolean;
  /** 0 or absent: any number. */
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
  /** In the model's folder `warmup`. */
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

/** Normalised: what `normalize.ts` fills in is there. */
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
/** TensorRT-LLM's LLM API, whose model takes such parameters one by one. */
export const isLlmApi = ({ input }: Pick<ModelConfig, "input">): boolean =>
  input?.some(({ name }) => name === "sampling_param_max_tokens") === true;
export const isCached = (config: ModelConfig): boolean => config.response_cache?.enable === true;
export const isEnsemble = (config: ModelConfig): boolean => config.platform === "ensemble";

const devicesOf = ({ kind, gpus = [] }: InstanceGroup): readonly number[] => (kind === "KIND_GPU" ? gpus : [0]);

/** Those on which it has an instance, each once. */
export const gpusOf = ({ instance_group: groups = [] }: ModelConfig): readonly number[] => [
  ...new Set(groups.flatMap((group) => (group.kind === "KIND_GPU" ? devicesOf(group) : []))),
];

export const instanceCount = ({ instance_group: groups = [] }: ModelConfig): number =>
  groups.reduce((all, group) => all + (group.count ?? 1) * devicesOf(group).length, 0);

/** Each by its name, with its group and its device: so many of a group for each of its GPUs. */
export const instancesOf = ({ instance_group: groups = [] }: ModelConfig) =>
  groups.flatMap((group) =>
    Array.from({ length: group.count ?? 1 }, (_, at) =>
      devicesOf(group).map((device) => ({ name: `${group.name}_${at}`, group, device })),
    ).flat(),
  );

/** The control of that kind with its input's name; undefined: the model wants none. */
export function controlOf(
  sequences: SequenceBatching | undefined,
  kind: string,
): { readonly name: string; readonly data_type?: string; readonly control: SequenceControl } | undefined {
  for (const { name = "", control: controls = [] } of sequences?.control_input ?? []) {
    // The first kind of the enumeration is its default.
    const control = controls.find((one) => (one.kind ?? "CONTROL_SEQUENCE_START") === kind);
    if (control) return { name, control, ...(control.data_type ? { data_type: control.data_type } : {}) };
  }
  return undefined;
}

const besideInstances = ({ instance_group: _, version_policy: __, ...config }: ModelConfig) => JSON.stringify(config);

/** As `EquivalentInNonInstanceGroupConfig` of `model_config_utils.cc` compares, which leaves the version policy out, too. */
export const alikeBesideInstances = (one: ModelConfig, other: ModelConfig): boolean =>
  besideInstances(one) === besideInstances(other);
