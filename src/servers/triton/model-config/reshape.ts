/**
 * Converts tensor shapes between model and client for a configuration with `reshape`. Sources: `Normalize` in
 * `infer_request.cc` for inputs, `Output::Reshape` in `infer_response.cc` for outputs (2026). The n-th variable dimension of
 * one side takes its size from the n-th of the other.
 */
import type { TensorConfig } from "./model-config.ts";

/**
 * Converts a client's shape to the model's. `from`: index of the first configured dimension; 1 if a batch dimension precedes
 * it.
 */
export const modelShape = (
  shape: readonly number[],
  { dims, reshape }: TensorConfig,
  from: 0 | 1,
): readonly number[] => (reshape === undefined ? shape : reshaped(shape, dims, reshape.shape ?? [], from));

/** Converts a model's shape to the client's. Returns undefined if the model's shape has too few dimensions. */
export const clientShape = (
  shape: readonly number[],
  { dims, reshape }: TensorConfig,
  from: 0 | 1,
): readonly number[] | undefined => {
  if (reshape === undefined) return shape;
  const made = reshaped(shape, reshape.shape ?? [], dims, from);
  return made.includes(undefined as never) ? undefined : made;
};

function reshaped(shape: readonly number[], dims: readonly number[], to: readonly number[], from: 0 | 1): number[] {
  const made = shape.slice(0, from);
  let at = -1;
  for (const dim of to) {
    if (dim === -1) at = dims.indexOf(-1, at + 1);
    made.push(dim === -1 ? shape[from + at]! : dim);
  }
  return made;
}
