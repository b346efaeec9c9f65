/**
 * Which fields has a model's configuration? `model_config.proto` as the descriptors of tritonclient 2.73.0 show it: names and
 * types in the order in which the real server prints them; the text format names no numbers.
 */

/** `NAME = FIELD:TYPE …`; `[]` repeated, `{K,V}` a map, `|CHOICE` one of a choice, `+` later than 2.51. */
const MESSAGES = `
  ModelConfig = name:string platform:string backend:string runtime:string version_policy:ModelVersionPolicy
    max_batch_size:int32 input:ModelInput[] output:ModelOutput[] batch_input:BatchInput[] batch_output:BatchOutput[]
    optimization:ModelOptimizationPolicy dynamic_batching:ModelDynamicBatching|scheduling_choice
    sequence_batching:ModelSequenceBatching|scheduling_choice ensemble_scheduling:ModelEnsembling|scheduling_choice
    instance_group:ModelInstanceGroup[] default_model_filename:string cc_model_filenames:{string,string}
    metric_tags:{string,string} parameters:{string,ModelParameter} model_warmup:ModelWarmup[]
    model_operations:ModelOperations model_transaction_policy:ModelTransactionPolicy
    model_repository_agents:ModelRepositoryAgents response_cache:ModelResponseCache model_metrics:ModelMetrics+
  ModelMetrics.MetricControl.HistogramOptions = buckets:double[]
  ModelMetrics.MetricControl.MetricIdentifier = family:string
  ModelMetrics.MetricControl = metric_identifier:ModelMetrics.MetricControl.MetricIdentifier
    histogram_options:ModelMetrics.MetricControl.HistogramOptions|metric_options
  ModelMetrics = metric_control:ModelMetrics.MetricControl[]
  ModelResponseCache = enable:bool
  ModelRepositoryAgents.Agent = name:string parameters:{string,string}
  ModelRepositoryAgents = agents:ModelRepositoryAgents.Agent[]
  ModelTransactionPolicy = decoupled:bool
  ModelOperations = op_library_filename:string[]
  ModelWarmup.Input = data_type:DataType dims:int64[] zero_data:bool|input_data_type random_data:bool|input_data_type
    input_data_file:string|input_data_type
  ModelWarmup = name:string batch_size:uint32 inputs:{string,ModelWarmup.Input} count:uint32
  ModelParameter = string_value:string
  ModelEnsembling.Step = model_name:string model_version:int64 input_map:{string,string} output_map:{string,string}
    model_namespace:string
  ModelEnsembling = step:ModelEnsembling.Step[] max_inflight_requests:uint32+
  ModelSequenceBatching.StrategyOldest = max_candidate_sequences:int32 preferred_batch_size:int32[]
    max_queue_delay_microseconds:uint64 preserve_ordering:bool
  ModelSequenceBatching.StrategyDirect = max_queue_delay_microseconds:uint64 minimum_slot_utilization:float
  ModelSequenceBatching.State = input_name:string output_name:string data_type:DataType dims:int64[]
    initial_state:ModelSequenceBatching.InitialState[] use_same_buffer_for_input_output:bool use_growable_memory:bool
  ModelSequenceBatching.InitialState = data_type:DataType dims:int64[] zero_data:bool|state_data
    data_file:string|state_data name:string
  ModelSequenceBatching.ControlInput = name:string control:ModelSequenceBatching.Control[]
  ModelSequenceBatching.Control = kind:ModelSequenceBatching.Control.Kind int32_false_true:int32[]
    fp32_false_true:float[] bool_false_true:bool[] data_type:DataType
  ModelSequenceBatching = direct:ModelSequenceBatching.StrategyDirect|strategy_choice
    oldest:ModelSequenceBatching.StrategyOldest|strategy_choice max_sequence_idle_microseconds:uint64
    control_input:ModelSequenceBatching.ControlInput[] state:ModelSequenceBatching.State[] iterative_sequence:bool
  ModelDynamicBatching = preferred_batch_size:int32[] max_queue_delay_microseconds:uint64 preserve_ordering:bool
    priority_levels:uint64 default_priority_level:uint64 default_queue_policy:ModelQueuePolicy
    priority_queue_policy:{uint64,ModelQueuePolicy}
  ModelQueuePolicy = timeout_action:ModelQueuePolicy.TimeoutAction default_timeout_microseconds:uint64
    allow_timeout_override:bool max_queue_size:uint32
  ModelOptimizationPolicy.PinnedMemoryBuffer = enable:bool
  ModelOptimizationPolicy.ExecutionAccelerators.Accelerator = name:string parameters:{string,string}
  ModelOptimizationPolicy.ExecutionAccelerators =
    gpu_execution_accelerator:ModelOptimizationPolicy.ExecutionAccelerators.Accelerator[]
    cpu_execution_accelerator:ModelOptimizationPolicy.ExecutionAccelerators.Accelerator[]
  ModelOptimizationPolicy.Cuda.GraphSpec.LowerBound = batch_size:int32
    input:{string,ModelOptimizationPolicy.Cuda.GraphSpec.Shape}
  ModelOptimizationPolicy.Cuda.GraphSpec.Shape = dim:int64[]
  ModelOptimizationPolicy.Cuda.GraphSpec = batch_size:int32 input:{string,ModelOptimizationPolicy.Cuda.GraphSpec.Shape}
    graph_lower_bound:ModelOptimizationPolicy.Cuda.GraphSpec.LowerBound
  ModelOptimizationPolicy.Cuda = graphs:bool busy_wait_events:bool graph_spec:ModelOptimizationPolicy.Cuda.GraphSpec[]
    output_copy_stream:bool
  ModelOptimizationPolicy.Graph = level:int32
  ModelOptimizationPolicy = graph:ModelOptimizationPolicy.Graph priority:ModelOptimizationPolicy.ModelPriority
    cuda:ModelOptimizationPolicy.Cuda execution_accelerators:ModelOptimizationPolicy.ExecutionAccelerators
    input_pinned_memory:ModelOptimizationPolicy.PinnedMemoryBuffer
    output_pinned_memory:ModelOptimizationPolicy.PinnedMemoryBuffer gather_kernel_buffer_threshold:uint32
    eager_batching:bool
  ModelVersionPolicy.Specific = versions:int64[]
  ModelVersionPolicy.All =
  ModelVersionPolicy.Latest = num_versions:uint32
  ModelVersionPolicy = latest:ModelVersionPolicy.Latest|policy_choice all:ModelVersionPolicy.All|policy_choice
    specific:ModelVersionPolicy.Specific|policy_choice
  BatchOutput = target_name:string[] kind:BatchOutput.Kind source_input:string[]
  BatchInput = kind:BatchInput.Kind target_name:string[] data_type:DataType source_input:string[]
  ModelOutput = name:string data_type:DataType dims:int64[] reshape:ModelTensorReshape label_filename:string
    is_shape_tensor:bool is_non_linear_format_io:bool
  ModelInput = name:string data_type:DataType format:ModelInput.Format dims:int64[] reshape:ModelTensorReshape
    is_shape_tensor:bool allow_ragged_batch:bool optional:bool is_non_linear_format_io:bool
  ModelTensorReshape = shape:int64[]
  ModelInstanceGroup.SecondaryDevice = kind:ModelInstanceGroup.SecondaryDevice.SecondaryDeviceKind device_id:int64
  ModelInstanceGroup = name:string kind:ModelInstanceGroup.Kind count:int32 rate_limiter:ModelRateLimiter
    gpus:int32[] secondary_devices:ModelInstanceGroup.SecondaryDevice[] profile:string[] passive:bool
    host_policy:string
  ModelRateLimiter.Resource = name:string global:bool count:uint32
  ModelRateLimiter = resources:ModelRateLimiter.Resource[] priority:uint32
`;

/** The first name of each is its default. */
const ENUMS = `
  ModelInstanceGroup.Kind = KIND_AUTO KIND_GPU KIND_CPU KIND_MODEL
  ModelInstanceGroup.SecondaryDevice.SecondaryDeviceKind = KIND_NVDLA
  ModelInput.Format = FORMAT_NONE FORMAT_NHWC FORMAT_NCHW
  BatchInput.Kind = BATCH_ELEMENT_COUNT BATCH_ACCUMULATED_ELEMENT_COUNT BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO
    BATCH_MAX_ELEMENT_COUNT_AS_SHAPE BATCH_ITEM_SHAPE BATCH_ITEM_SHAPE_FLATTEN
  BatchOutput.Kind = BATCH_SCATTER_WITH_INPUT_SHAPE
  ModelOptimizationPolicy.ModelPriority = PRIORITY_DEFAULT PRIORITY_MAX PRIORITY_MIN
  ModelQueuePolicy.TimeoutAction = REJECT DELAY
  ModelSequenceBatching.Control.Kind = CONTROL_SEQUENCE_START CONTROL_SEQUENCE_READY CONTROL_SEQUENCE_END
    CONTROL_SEQUENCE_CORRID
  DataType = TYPE_INVALID TYPE_BOOL TYPE_UINT8 TYPE_UINT16 TYPE_UINT32 TYPE_UINT64 TYPE_INT8 TYPE_INT16 TYPE_INT32
    TYPE_INT64 TYPE_FP16 TYPE_FP32 TYPE_FP64 TYPE_STRING TYPE_BF16
`;

export interface ConfigField {
  readonly name: string;
  /** A message, an enumeration or a scalar of protobuf. */
  readonly type: string;
  readonly repeated: boolean;
  /** Type of the keys, where it is a map; `type` is that of its values. */
  readonly keys: string | null;
  /** Fields of one choice exclude each other. */
  readonly choice: string | null;
  /** 2.51 does not know it. */
  readonly later: boolean;
}

/** Lines of `NAME = WORDS`; what is indented further goes on. */
function definitions(text: string): Map<string, string[]> {
  const joined = text
    .trim()
    .replaceAll(/\n {4}/g, " ")
    .split("\n");
  return new Map(
    joined.map((line) => {
      const [name = "", words = ""] = line.split("=");
      return [name.trim(), words.trim().split(" ").filter(Boolean)];
    }),
  );
}

function field(text: string): ConfigField {
  const [, name = "", keys = null, mapped, plain, list, choice = null, later] =
    /^(\w+):(?:\{(\w+),([\w.]+)\}|([\w.]+)(\[\])?)(?:\|(\w+))?(\+)?$/.exec(text)!;
  return { name, keys, type: mapped ?? plain!, repeated: list !== undefined, choice, later: later !== undefined };
}

/** By name of the message, without its package. */
export const messages: ReadonlyMap<string, readonly ConfigField[]> = new Map(
  [...definitions(MESSAGES)].map(([name, fields]) => [name, fields.map(field)]),
);
export const enums: ReadonlyMap<string, readonly string[]> = definitions(ENUMS);
export const ROOT = "ModelConfig";
