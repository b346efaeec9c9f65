/**
 * Checks that the steps of an ensemble fit the models that they name. Source: `ValidateEnsembleConfig` in `ensemble_utils.cc`
 * (core 73aad7c3348d, 2026), with its messages. Skips a model whose configuration lists no tensors, because the real server
 * would read them from the model's file.
 */
import { firstOf, mapped, type Pieces } from "../../../base/pieces.ts";
import type { EnsembleStep, ModelConfig, TensorConfig } from "./model-config.ts";
import { maxBatchSize } from "./model-config.ts";
import { byName } from "./step-shapes.ts";

/** Returns type and shape of an ensemble tensor, as they are inferred from this model. */
const inferred = (model: string, batched: boolean, type: string, dims: readonly number[]) => ({
  model,
  type,
  dims,
  /** Dimensions including the batch dimension, if there is one. */
  whole: batched ? [-1, ...dims] : dims,
});
type InferredTensor = ReturnType<typeof inferred>;

/** Returns the first error, or undefined if all steps fit. `modelOf`: finds a loaded model by name. */
export function* wrongSteps(
  ensemble: ModelConfig,
  modelOf: (name: string) => ModelConfig | undefined,
): Pieces<string | undefined> {
  const { name } = ensemble;
  const most = maxBatchSize(ensemble);
  const declared = yield* mapped(
    [...(ensemble.input ?? []), ...(ensemble.output ?? [])],
    (tensor) =>
      [
        tensor.name,
        inferred(name, most > 0, tensor.data_type, tensor.reshape ? (tensor.reshape.shape ?? []) : tensor.dims),
      ] as const,
  );
  const tensors = new InferredTensors(name, new Map(declared));
  for (const step of ensemble.ensemble_scheduling?.step ?? []) {
    const model = modelOf(step.model_name!);
    if (model === undefined) continue;
    const allowed = maxBatchSize(model);
    if (allowed !== 0 && allowed < most)
      return `ensemble ${name} allows maximum batch size ${most}, but it contains model ${model.name} which only allows maximum batch size to be ${allowed}`;
    const wrong = (yield* wrongInputs(name, step, model, tensors)) ?? (yield* wrongOutputs(name, step, model, tensors));
    if (wrong !== undefined) return wrong;
  }
  return undefined;
}

function* wrongInputs(name: string, step: EnsembleStep, model: ModelConfig, tensors: InferredTensors) {
  const { input: inputs = [] } = model;
  if (inputs.length === 0) return undefined;
  const names = new Set(inputs.map((input) => input.name));
  const strange = yield* firstOf(Object.keys(step.input_map!), (input) =>
    names.has(input)
      ? undefined
      : `in ensemble ${name}, ensemble tensor ${step.input_map![input]} is mapping to non-existing input ${input} in model ${model.name}`,
  );
  if (strange !== undefined) return strange;
  return yield* firstOf(inputs, (input) => {
    const tensor = step.input_map![input.name];
    if (tensor !== undefined) return tensors.joined(tensor, model, input);
    if (input.optional) return undefined;
    return `in ensemble ${name}, input ${input.name} in model ${model.name} is not mapped to any ensemble tensors`;
  });
}

function* wrongOutputs(name: string, step: EnsembleStep, model: ModelConfig, tensors: InferredTensors) {
  const { output: outputs = [] } = model;
  if (outputs.length === 0) return undefined;
  const named = byName(outputs);
  return yield* firstOf(Object.keys(step.output_map!), (output) => {
    const tensor = step.output_map![output]!;
    const declared = named.get(output);
    if (declared !== undefined) return tensors.joined(tensor, model, declared);
    return `in ensemble ${name}, ensemble tensor ${tensor} is mapped from non-existing output ${output} in model ${model.name}`;
  });
}

/** The tensors of an ensemble as they are inferred so far. */
class InferredTensors {
  constructor(
    private readonly ensemble: string,
    private readonly tensors: Map<string, InferredTensor>,
  ) {}

  /** Records the type and shape of a tensor at its first use. At a later use, compares them and returns the error. */
  joined(tensor: string, model: ModelConfig, { data_type: type, dims }: TensorConfig): string | undefined {
    const current = inferred(model.name, maxBatchSize(model) > 0, type, dims);
    const before = this.tensors.get(tensor);
    if (before === undefined) {
      this.tensors.set(tensor, current);
      return undefined;
    }
    const start = `in ensemble ${this.ensemble}, ensemble tensor ${tensor}: inconsistent`;
    const ends = (a: unknown, b: unknown) =>
      `${a} is inferred from model ${before.model} while ${b} is inferred from model ${current.model}`;
    if (before.type !== current.type) return `${start} data type: ${ends(before.type, current.type)}`;
    if (alike(before.dims, current.dims) || alike(before.whole, current.whole)) return undefined;
    return `${start} shape: ${ends(`[${before.whole}]`, `[${current.whole}]`)}`;
  }
}

const alike = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((dim, at) => dim === b[at] || dim === -1 || b[at] === -1);
