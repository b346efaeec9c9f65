/**
 * Do the steps of an ensemble fit the models that they name? `ValidateEnsembleConfig` of `ensemble_utils.cc` (core 73aad7c3348d,
 * 2026), in its words. A model whose configuration names no tensors is not looked into: the real one has them of its file.
 */
import { firstOf, mapped, type Pieces } from "../../../base/pieces.ts";
import type { EnsembleStep, ModelConfig, TensorConfig } from "./model-config.ts";
import { maxBatchSize } from "./model-config.ts";
import { byName } from "./step-shapes.ts";

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
export function* wrongSteps(
  ensemble: ModelConfig,
  modelOf: (name: string) => ModelConfig | undefined,
): Pieces<string | undefined> {
  const { name } = ensemble;
  const most = maxBatchSize(ensemble);
  const own = yield* mapped(
    [...(ensemble.input ?? []), ...(ensemble.output ?? [])],
    (one) =>
      [one.name, known(name, most > 0, one.data_type, one.reshape ? (one.reshape.shape ?? []) : one.dims)] as const,
  );
  const tensors = new Map(own);
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

function* wrongInputs(name: string, step: EnsembleStep, model: ModelConfig, tensors: Map<string, Known>) {
  const { input: inputs = [] } = model;
  if (inputs.length === 0) return undefined;
  const names = new Set(inputs.map((one) => one.name));
  const strange = yield* firstOf(Object.keys(step.input_map!), (input) =>
    names.has(input)
      ? undefined
      : `in ensemble ${name}, ensemble tensor ${step.input_map![input]} is mapping to non-existing input ${input} in model ${model.name}`,
  );
  if (strange !== undefined) return strange;
  return yield* firstOf(inputs, (input) => {
    const tensor = step.input_map![input.name];
    if (tensor !== undefined) return joined(name, tensor, model, input, tensors);
    if (input.optional) return undefined;
    return `in ensemble ${name}, input ${input.name} in model ${model.name} is not mapped to any ensemble tensors`;
  });
}

function* wrongOutputs(name: string, step: EnsembleStep, model: ModelConfig, tensors: Map<string, Known>) {
  const { output: outputs = [] } = model;
  if (outputs.length === 0) return undefined;
  const named = byName(outputs);
  return yield* firstOf(Object.keys(step.output_map!), (output) => {
    const tensor = step.output_map![output]!;
    const own = named.get(output);
    if (own !== undefined) return joined(name, tensor, model, own, tensors);
    return `in ensemble ${name}, ensemble tensor ${tensor} is mapped from non-existing output ${output} in model ${model.name}`;
  });
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
