/**
 * What is wrong with a configuration? In Triton's words: `ValidateModelConfig`, `ValidateModelIOConfig` and
 * `ValidateInstanceGroup` of `model_config_utils.cc` (2026). Ensembles: `validate-ensemble.ts`, sequences'
 * controls: `validate-sequences.ts`.
 */
import { firstOf, type Pieces } from "../../python/pieces.ts";
import { BACKENDS } from "./backends.ts";
import type { DynamicBatching, ModelConfig, QueuePolicy, TensorConfig } from "./model-config.ts";
import { maxBatchSize } from "./model-config.ts";
import { wrongEnsemble } from "./validate-ensemble.ts";
import { wrongControls } from "./validate-sequences.ts";

/** The first thing that is wrong; undefined: nothing is. */
export function* wrongConfig(config: ModelConfig): Pieces<string | undefined> {
  const { name, platform = "", backend = "" } = config;
  const most = maxBatchSize(config);
  if (backend === "" && platform !== "ensemble") return `unexpected platform type '${platform}' for ${name}`;
  if (backend !== "" && platform === "ensemble")
    return `Ensemble model '${name}' must have platform type 'ensemble' and empty backend type`;
  const own = BACKENDS[backend]?.platform ?? "";
  if (own !== "" && platform !== own && !(backend === "tensorflow" && platform.startsWith("tensorflow_")))
    return `unexpected 'platform' and 'backend' pair, got:${platform}, ${backend}`;
  if (most < 0) return `'max_batch_size' must be non-negative value for ${name}`;
  const { dynamic_batching: dynamic, sequence_batching: sequences } = config;
  const cached = config.response_cache?.enable === true;
  if (sequences && cached)
    return `Response Cache does not currently support model ${name} with sequence batching scheduler. Please disable the response cache.`;
  const controls = sequences && (yield* wrongControls(sequences, name));
  if (controls !== undefined) return controls;
  const batching = (dynamic && (yield* wrongBatching(dynamic, most))) ?? (sequences && wrongSequences(sequences, most));
  if (batching !== undefined) return `${batching} for ${name}`;
  if (config.ensemble_scheduling) {
    const wrong = yield* wrongEnsemble(config);
    if (wrong !== undefined) return wrong;
  } else if (platform === "ensemble")
    return `ensemble scheduling must be set for ensemble ${name} whose platform is ensemble`;
  if (cached && config.model_transaction_policy?.decoupled)
    return `Response Cache does not currently support model ${name} with 'decoupled' transaction policy. Please disable the response cache.`;
  const { input = [], output = [] } = config;
  const tensor =
    (yield* firstOf(input, (one) => wrongTensor(one, most, platform, "model input "))) ??
    (yield* firstOf(output, (one) => wrongTensor(one, most, platform, "model output ")));
  return tensor === undefined ? yield* wrongGroups(config) : `${tensor} for ${name}`;
}

function wrongSizes(sizes: readonly number[], most: number, what: string): string | undefined {
  if (sizes.some((size) => size <= 0)) return `${what} must be positive`;
  return sizes.some((size) => size > most) ? `${what} must be <= max batch size` : undefined;
}

function* wrongBatching(batching: DynamicBatching, most: number): Pieces<string | undefined> {
  const sizes = wrongSizes(batching.preferred_batch_size ?? [], most, "dynamic batching preferred size");
  if (sizes !== undefined) return sizes;
  const { priority_levels: levels = 0, default_priority_level: level = 0 } = batching;
  const policies = batching.priority_queue_policy ?? {};
  const levelsSaid = Object.keys(policies);
  if (levels !== 0) {
    if (level === 0 || level > levels) return `default priority level must be in range [1, ${levels}]`;
    const range = `priority queue policy must have priority level in range [1, ${levels}]`;
    const beyond = yield* firstOf(levelsSaid, (of) => (Number(of) === 0 || Number(of) > levels ? range : undefined));
    if (beyond !== undefined) return beyond;
  }
  if (!batching.preserve_ordering) return undefined;
  if (levels > 1) return "Only one priority level is allowed when 'preserve_ordering' is true";
  const delayed = (one: QueuePolicy | undefined) =>
    one?.default_timeout_microseconds && one.timeout_action === "DELAY"
      ? "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true"
      : undefined;
  return delayed(batching.default_queue_policy) ?? (yield* firstOf(levelsSaid, (of) => delayed(policies[of])));
}

function wrongSequences(sequences: NonNullable<ModelConfig["sequence_batching"]>, most: number): string | undefined {
  const { oldest, direct } = sequences;
  const used = direct?.minimum_slot_utilization ?? 0;
  if (used < 0 || used > 1) return "sequence batching minimum slot utilization must be in range (0.0, 1.0]";
  return wrongSizes(oldest?.preferred_batch_size ?? [], most, "sequence batching preferred batch size");
}

function wrongTensor(tensor: TensorConfig, most: number, platform: string, what: string): string | undefined {
  if (!tensor.name) return `${what}must specify 'name'`;
  const named = `${what}'${tensor.name}' `;
  if ((tensor.data_type ?? "TYPE_INVALID") === "TYPE_INVALID") return `${named}must specify 'data_type'`;
  const { dims = [], reshape } = tensor;
  if (dims.length === 0) return `${named}must specify 'dims'`;
  const shape = reshape?.shape ?? [];
  if (reshape && shape.length === 0 && most === 0)
    return `${named}cannot have empty reshape for non-batching model as scalar tensors are not supported`;
  const wrong = (dim: number) => dim < 1 && dim !== -1;
  const any = "must be integer >= 1, or -1 to indicate a variable-size dimension";
  if (dims.some(wrong)) return `${named}dimension ${any}`;
  if (shape.some(wrong)) return `${named}reshape dimensions ${any}`;
  const reshaped = reshape && wrongReshape(dims, shape);
  if (reshaped) return `${named}${reshaped}`;
  if (/^FORMAT_N(HWC|CHW)$/.test(String(tensor.format)) && dims.length !== 3)
    return "model input NHWC/NCHW require 3 dims";
  if (tensor.is_shape_tensor && platform !== "tensorrt_plan")
    return "shape tensors are only supported for TensorRT platform";
  return undefined;
}

/** Fixed dimensions between two variable ones come to the same number on both sides. */
function wrongReshape(dims: readonly number[], shape: readonly number[]): string | undefined {
  const [have, want] = [parts(dims), parts(shape)];
  if (have.length !== want.length)
    return have.length === 1 || want.length === 1
      ? "has different size for dims and reshape"
      : "has different number of variable-size dimensions for dims and reshape";
  return have.some((count, at) => count !== want[at]) ? "has different size for dims and reshape" : undefined;
}

function parts(dims: readonly number[]): number[] {
  const counts = [1];
  for (const dim of dims) {
    if (dim === -1) counts.push(1);
    else counts[counts.length - 1]! *= dim;
  }
  return counts;
}

const wrongGroups = ({ name, platform = "", instance_group: groups = [] }: ModelConfig) =>
  firstOf(groups, (group) => {
    const start = `instance group ${group.name} of model ${name}`;
    const some = (group.gpus ?? []).length > 0;
    if (group.kind !== "KIND_GPU" && some) return `${start} has kind ${group.kind} but specifies one or more GPUs`;
    if (platform !== "tensorrt_plan" && ((group.profile as readonly string[]) ?? []).length > 0)
      return `${start} and platform ${platform}specifies profile field which is only supported for TensorRT models`;
    return undefined;
  });
