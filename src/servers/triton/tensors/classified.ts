/**
 * Implements Triton's classification extension: returns the top classes of a tensor. Source: `topk.cc` and `AddClassResults`
 * (2026).
 */
import { invalidArg } from "../model-config/status.ts";
import { elementCount, elementsOf, packTexts, type Tensor } from "./datatypes.ts";

/**
 * Returns the largest values of each batch item, as `VALUE:INDEX` or `VALUE:INDEX:LABEL`. Throws a `TritonError` for types that
 * cannot be classified.
 */
export function classified(
  { name, datatype, shape, data }: Tensor,
  classes: number,
  batched: boolean,
  labels: readonly string[] = [],
): Tensor {
  if (datatype === "BYTES" || datatype === "BOOL" || datatype === "FP16" || datatype === "BF16")
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
    const classText = (at: number) =>
      `${real ? fixed(Number(value(at))) : value(at)}:${at}${labels[at] ? `:${labels[at]}` : ""}`;
    return order.slice(0, count).map(classText);
  }).flat();
  return { name, datatype: "BYTES", shape: batched ? [rows, count] : [count], data: packTexts(texts) };
}

/** From this value on, JavaScript prints numbers with an exponent. */
const EXPONENT_FROM = 1e21;

/** Prints a number like `std::to_string`: all digits before the point and six after it. */
function fixed(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (Math.abs(value) < EXPONENT_FROM) return value.toFixed(6);
  return Number.isFinite(value) ? `${BigInt(value)}.000000` : `${value < 0 ? "-" : ""}inf`;
}
