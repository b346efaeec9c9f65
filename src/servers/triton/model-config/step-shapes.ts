/** Finds the shapes that the steps of an ensemble must produce so that later steps accept them. */
import { ITEMS_OF_A_PIECE, type Pieces } from "../../../base/pieces.ts";
import type { ModelConfig, TensorConfig } from "./model-config.ts";

type Shape = [model: string, output: string, dims: readonly number[]];

/**
 * Returns one entry per step output and consuming input. `dims` excludes the batch dimension. Skips models that `modelOf` does
 * not find.
 */
export function* stepShapes(
  ensemble: ModelConfig,
  modelOf: (name: string) => ModelConfig | undefined,
): Pieces<readonly Shape[]> {
  const steps = ensemble.ensemble_scheduling?.step ?? [];
  const inputsOf = new Map<string, ReadonlyMap<string, TensorConfig>>();
  const consumers = new Map<string, (readonly [model: string, input: string])[]>();
  let seen = 0;
  for (const { model_name: model = "", input_map: inputs = {} } of steps) {
    if (!inputsOf.has(model)) inputsOf.set(model, byName(modelOf(model)?.input ?? []));
    for (const input of Object.keys(inputs)) {
      const inputsOfTensor = consumers.get(inputs[input]!);
      if (inputsOfTensor === undefined) consumers.set(inputs[input]!, [[model, input]]);
      else inputsOfTensor.push([model, input]);
      if (++seen % ITEMS_OF_A_PIECE === 0) yield;
    }
  }
  const shapes: Shape[] = [];
  for (const { model_name: model = "", output_map: outputs = {} } of steps)
    for (const output of Object.keys(outputs))
      for (const [next, input] of consumers.get(outputs[output]!) ?? []) {
        const consumed = inputsOf.get(next)!.get(input);
        if (consumed !== undefined) shapes.push([model, output, consumed.dims]);
        if (++seen % ITEMS_OF_A_PIECE === 0) yield;
      }
  return shapes;
}

/** Maps names to tensors. The first tensor with a name wins. */
export const byName = (tensors: readonly TensorConfig[]): ReadonlyMap<string, TensorConfig> =>
  new Map(tensors.toReversed().map((tensor) => [tensor.name, tensor]));
