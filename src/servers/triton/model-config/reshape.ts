/**
 * Which shape has a tensor for the model whose configuration says `reshape`, and which for its client? Inputs: `Normalize` of
 * `infer_request.cc`, outputs: `Output::Reshape` of `infer_response.cc` (2026). A size that is left open keeps its place among those.
 */
import type { TensorConfig } from "./model-config.ts";

/** `from`: where in the shape the configuration's own dimensions begin, 1 behind a batch's. */
export const modelShape = (
  shape: readonly number[],
  { dims, reshape }: TensorConfig,
  from: 0 | 1,
): readonly number[] => (reshape === undefined ? shape : reshaped(shape, dims, reshape.shape ?? [], from));

/** As `modelShape`; undefined: the model's shape has too few dimensions to be made the client's. */
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
