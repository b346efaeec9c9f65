/**
 * Do the steps of an ensemble fit the models that they name? `ValidateEnsembleConfig` of `ensemble_utils.cc` (core 73aad7c3348d,
 * 2026), in its words. A model whose configuration names no tensors is not looked into: the real one has them of its file.
 */
import type { EnsembleStep, ModelConfig, TensorConfig } from "./model-config.ts";
import { maxBatchSize } from "./model-config.ts";

/** A tensor of the ensemble, and the model by which it is known. */
interface Known {
  readonly model: string;
  readonly type: string;
  readonly dims: readonly number[];
  /** With the batch's. */
  readonly whole: readonly number[];
}

const known = (model: string, batched: boolean, type: string, dims: readonly number[]): Known => ({
  model,
  type,
  dims,
  whole: batched ? [-1, ...dims] : dims,
});

/** Undefined: all fit. `modelOf`: a model that is loaded. */
export function wrongSteps(
  ensemble: ModelConfig,
  modelOf: (name: string) => ModelConfig | undefined,
): string | undefined {
  const { name } = ensemble;
  const most = maxBatchSize(ensemble);
  const tensors = new Map(
    [...(ensemble.input ?? []), ...(ensemble.output ?? [])].map((one) => [
      one.name,
      known(name, most > 0, one.data_type, one.reshape?.shape ?? one.dims),
    ]),
  );
  for (const step of ensemble.ensemble_scheduling?.step ?? []) {
    const model = modelOf(step.model_name!);
    if (model === undefined) continue;
    const own = maxBatchSize(model);
    if (own !== 0 && own < most)
      return `ensemble ${name} allows maximum batch size ${most}, but it contains model ${model.name} which only allows maximum batch size to be ${own}`;
    const wrong = wrongInputs(name, step, model, tensors) ?? wrongOutputs(name, step, model, tensors);
    if (wrong !== undefined) return wrong;
  }
  return undefined;
}

function wrongInputs(name: string, step: EnsembleStep, model: ModelConfig, tensors: Map<string, Known>) {
  const { input: inputs = [] } = model;
  if (inputs.length === 0) return undefined;
  const mapped = Object.entries(step.input_map!);
  const strange = mapped.find(([input]) => !inputs.some((one) => one.name === input));
  if (strange)
    return `in ensemble ${name}, ensemble tensor ${strange[1]} is mapping to non-existing input ${strange[0]} in model ${model.name}`;
  for (const input of inputs) {
    const tensor = step.input_map![input.name];
    if (tensor !== undefined) {
      const wrong = joined(name, tensor, model, input, tensors);
      if (wrong !== undefined) return wrong;
    } else if (!input.optional)
      return `in ensemble ${name}, input ${input.name} in model ${model.name} is not mapped to any ensemble tensors`;
  }
  return undefined;
}

function wrongOutputs(name: string, step: EnsembleStep, model: ModelConfig, tensors: Map<string, Known>) {
  const { output: outputs = [] } = model;
  if (outputs.length === 0) return undefined;
  for (const [output, tensor] of Object.entries(step.output_map!)) {
    const own = outputs.find((one) => one.name === output);
    if (own === undefined)
      return `in ensemble ${name}, ensemble tensor ${tensor} is mapped from non-existing output ${output} in model ${model.name}`;
    const wrong = joined(name, tensor, model, own, tensors);
    if (wrong !== undefined) return wrong;
  }
  return undefined;
}

/** The model's tensor is the ensemble's: of the same type, and of a shape that may be the same. */
function joined(
  name: string,
  tensor: string,
  model: ModelConfig,
  { data_type: type, dims }: TensorConfig,
  tensors: Map<string, Known>,
): string | undefined {
  const own = known(model.name, maxBatchSize(model) > 0, type, dims);
  const before = tensors.get(tensor);
  if (before === undefined) tensors.set(tensor, own);
  else {
    const start = `in ensemble ${name}, ensemble tensor ${tensor}: inconsistent`;
    const ends = (a: unknown, b: unknown) =>
      `${a} is inferred from model ${before.model} while ${b} is inferred from model ${own.model}`;
    if (before.type !== own.type) return `${start} data type: ${ends(before.type, own.type)}`;
    if (!alike(before.dims, own.dims) && !alike(before.whole, own.whole))
      return `${start} shape: ${ends(`[${before.whole}]`, `[${own.whole}]`)}`;
  }
  return undefined;
}

const alike = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((dim, at) => dim === b[at] || dim === -1 || b[at] === -1);
