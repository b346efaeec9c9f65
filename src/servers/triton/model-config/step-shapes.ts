/** Which shape must a step's output have so that the next step of the ensemble takes it? */
import { ITEMS_OF_A_PIECE, type Pieces } from "../../../base/pieces.ts";
import type { ModelConfig, TensorConfig } from "./model-config.ts";

type Shape = [model: string, output: string, dims: readonly number[]];

/** Dimensions without the batch's, by model and output; only of models that are known. */
export function* stepShapes(
  ensemble: ModelConfig,
  modelOf: (name: string) => ModelConfig | undefined,
): Pieces<readonly Shape[]> {
  const steps = ensemble.ensemble_scheduling?.step ?? [];
  const inputsOf = new Map<string, ReadonlyMap<string, TensorConfig>>();
  const takers = new Map<string, (readonly [model: string, input: string])[]>();
  let seen = 0;
  for (const { model_name: model = "", input_map: inputs = {} } of steps) {
    if (!inputsOf.has(model)) inputsOf.set(model, byName(modelOf(model)?.input ?? []));
    for (const input of Object.keys(inputs)) {
      const known = takers.get(inputs[input]!);
      if (known === undefined) takers.set(inputs[input]!, [[model, input]]);
      else known.push([model, input]);
      if (++seen % ITEMS_OF_A_PIECE === 0) yield;
    }
  }
  const shapes: Shape[] = [];
  for (const { model_name: model = "", output_map: outputs = {} } of steps)
    for (const output of Object.keys(outputs))
      for (const [next, input] of takers.get(outputs[output]!) ?? []) {
        const taken = inputsOf.get(next)!.get(input);
        if (taken !== undefined) shapes.push([model, output, taken.dims]);
        if (++seen % ITEMS_OF_A_PIECE === 0) yield;
      }
  return shapes;
}

/** The first of each name. */
export const byName = (tensors: readonly TensorConfig[]): ReadonlyMap<string, TensorConfig> =>
  new Map(tensors.toReversed().map((one) => [one.name, one]));
