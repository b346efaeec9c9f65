/** Which shape must a step's output have so that the next step of the ensemble takes it? */
import type { ModelConfig } from "./model-config.ts";

/** Dimensions without the batch's, by model and output; only of models that are known. */
export function stepShapes(
  ensemble: ModelConfig,
  modelOf: (name: string) => ModelConfig | undefined,
): [model: string, output: string, dims: readonly number[]][] {
  const steps = ensemble.ensemble_scheduling?.step ?? [];
  return steps.flatMap(({ model_name: model = "", output_map: outputs = {} }) =>
    Object.entries(outputs).flatMap(([output, tensor]) =>
      steps.flatMap(({ model_name: next = "", input_map: inputs = {} }) =>
        Object.entries(inputs).flatMap(([input, from]): [string, string, readonly number[]][] => {
          const taken = from === tensor && modelOf(next)?.input?.find((one) => one.name === input);
          return taken ? [[model, output, taken.dims]] : [];
        }),
      ),
    ),
  );
}
