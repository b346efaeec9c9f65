/** Which classes does a tensor name? Triton's classification extension: `topk.cc` and `AddClassResults` (2026). */
import { invalidArg } from "../config/status.ts";
import { elementCount, elementsOf, packTexts, type Tensor } from "./datatypes.ts";

/** The largest values of each of the batch, as `VALUE:INDEX`. Throws a `TritonError`. */
export function classified({ name, datatype, shape, data }: Tensor, classes: number, batched: boolean): Tensor {
  if (datatype === "BYTES" || datatype === "FP16" || datatype === "BF16")
    throw invalidArg(`class result not available for output due to unsupported type '${datatype}'`);
  const rows = batched ? shape[0]! : 1;
  const width = elementCount(batched ? shape.slice(1) : shape);
  const count = Math.min(classes, width);
  const values = elementsOf(datatype, data) as unknown as ArrayLike<number | bigint>;
  const real = datatype === "FP32" || datatype === "FP64";
  const texts = Array.from({ length: rows }, (_, row) => {
    const order = Array.from({ length: width }, (_, at) => at);
    const value = (at: number) => values[row * width + at]!;
    order.sort((a, b) => (value(a) > value(b) ? -1 : value(a) < value(b) ? 1 : 0));
    return order.slice(0, count).map((at) => `${real ? Number(value(at)).toFixed(6) : value(at)}:${at}`);
  }).flat();
  return { name, datatype: "BYTES", shape: batched ? [rows, count] : [count], data: packTexts(texts) };
}
