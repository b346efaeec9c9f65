/** Reads and creates tensors for behaviours: first elements, strings and numbers. */
import { type Datatype, elementsOf, packNumbers, packTexts, type Tensor, unpackTexts } from "../tensors/datatypes.ts";
import type { ModelOutputs, ModelRequest } from "./behaviour.ts";

/** Returns all elements as numbers. Empty if the input is missing or contains strings. */
export const numbersIn = (request: ModelRequest, name: string): readonly number[] =>
  Array.from((elementsIn(request, name) ?? []) as ArrayLike<number | bigint>, Number);

export const firstNumber = (request: ModelRequest, name: string, otherwise: number): number =>
  numbersIn(request, name)[0] ?? otherwise;

/** Returns all elements as a typed array, or null if the input is missing or contains strings. */
export function elementsIn(request: ModelRequest, name: string): ReturnType<typeof elementsOf> | null {
  const tensor = request.inputs.get(name);
  return tensor === undefined || tensor.datatype === "BYTES" ? null : elementsOf(tensor.datatype, tensor.data);
}

/** Returns all elements as strings with one character per byte, or null if the input is missing. */
export function textsIn(request: ModelRequest, name: string): readonly string[] | null {
  const tensor = request.inputs.get(name);
  return tensor === undefined ? null : unpackTexts(tensor.data);
}

export const firstText = (request: ModelRequest, name: string, otherwise = ""): string =>
  textsIn(request, name)?.[0] ?? otherwise;

export const textTensor = (name: string, shape: readonly number[], texts: readonly string[]): Tensor => ({
  name,
  datatype: "BYTES",
  shape,
  data: packTexts(texts),
});

export const numberTensor = (
  name: string,
  datatype: Exclude<Datatype, "BYTES">,
  shape: readonly number[],
  values: readonly (number | bigint)[],
): Tensor => ({ name, datatype, shape, data: packNumbers(datatype, values) });

export const outputs = (...made: readonly Tensor[]): ModelOutputs => ({ outputs: made });
