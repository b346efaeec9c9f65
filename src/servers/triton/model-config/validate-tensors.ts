/**
 * Validates tensors and instance groups when a version loads, because a backend may complete them until then. Version 2.51 was
 * observed to do the same. Source: `ValidateInstanceGroup` and `ValidateModelIOConfig` in `model_config_utils.cc` (2026).
 */
import { firstOf, type Pieces } from "../../../base/pieces.ts";
import type { BatchTensor, ModelConfig, TensorConfig } from "./model-config.ts";
import { maxBatchSize } from "./model-config.ts";

/** Returns the first error in the inputs and outputs, or undefined. */
export function* wrongTensors(config: ModelConfig): Pieces<string | undefined> {
  const { name, platform = "", input = [], output = [] } = config;
  const most = maxBatchSize(config);
  const wrong =
    (yield* firstOf(input, (tensor) => wrongTensor(tensor, most, platform, "model input "))) ??
    (yield* firstOf(output, (tensor) => wrongTensor(tensor, most, platform, "model output "))) ??
    (yield* wrongBatchTensors(config));
  return wrong === undefined ? undefined : `${wrong} for ${name}`;
}

/**
 * Validates batch inputs and outputs. Each must have exactly one source, and the source must be an input. A batch output's
 * targets must be different outputs.
 */
function* wrongBatchTensors({
  input = [],
  output = [],
  batch_input: inputs = [],
  batch_output: outputs = [],
}: ModelConfig): Pieces<string | undefined> {
  if (inputs.length === 0 && outputs.length === 0) return undefined;
  const named = (all: readonly TensorConfig[]) => new Set(all.map(({ name }) => name));
  const [inputNames, outputNames] = [named(input), named(output)];
  const isInput = (name: string) => inputNames.has(name);
  const wrongSource = (kind: string, { kind: tensorKind, source_input: sources = [] }: BatchTensor) => {
    if (sources.length !== 1) return `batch ${kind} kind '${tensorKind}' expects 1 source input, got ${sources.length}`;
    return sources.every(isInput) ? undefined : `unknown source input name '${sources[0]}'`;
  };
  return (
    (yield* firstOf(inputs, (one) => {
      const type = wrongSource("input", { kind: "BATCH_ELEMENT_COUNT", ...one });
      if (type?.startsWith("batch")) return type;
      if (one.data_type !== "TYPE_INT32" && one.data_type !== "TYPE_FP32")
        return "batch input data type must be TYPE_INT32 or TYPE_FP32";
      return type;
    })) ??
    (yield* firstOf(outputs, (one) => {
      const wrong = wrongSource("output", { kind: "BATCH_SCATTER_WITH_INPUT_SHAPE", ...one });
      if (wrong !== undefined) return wrong;
      const targets = one.target_name ?? [];
      const strange = targets.find((target) => !outputNames.has(target));
      if (strange !== undefined) return `unknown target output name '${strange}'`;
      const twice = targets.find((target, at) => targets.indexOf(target) < at);
      return twice === undefined ? undefined : `target output name '${twice}' can only be specified once`;
    }))
  );
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

/**
 * Compares `dims` and `shape`. Variable dimensions split each into parts; matching parts must have the same number of elements.
 */
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

/** Returns the first error in the instance groups, or undefined. */
export function wrongGroups({
  name,
  platform = "",
  instance_group: groups = [],
}: ModelConfig): Pieces<string | undefined> {
  return firstOf(groups, (group) => {
    const start = `instance group ${group.name} of model ${name}`;
    const some = (group.gpus ?? []).length > 0;
    if (group.kind !== "KIND_GPU" && some) return `${start} has kind ${group.kind} but specifies one or more GPUs`;
    if (platform !== "tensorrt_plan" && ((group.profile as readonly string[]) ?? []).length > 0)
      return `${start} and platform ${platform}specifies profile field which is only supported for TensorRT models`;
    return undefined;
  });
}
