/** Which classes does a tensor name? Triton's classification extension: `topk.cc` and `AddClassResults` (2026). */
import { invalidArg } from "../model-config/status.ts";
import { elementCount, elementsOf, packTexts, type Tensor } from "./datatypes.ts";

/** The largest values of each of the batch, as `VALUE:INDEX` or `VALUE:INDEX:LABEL`. Throws a `TritonError`. */
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
    const said = (at: number) =>
      `${real ? fixed(Number(value(at))) : value(at)}:${at}${labels[at] ? `:${labels[at]}` : ""}`;
    return order.slice(0, count).map(said);
  }).flat();
  return { name, datatype: "BYTES", shape: batched ? [rows, count] : [count], data: packTexts(texts) };
}

/** From here on JavaScript writes an exponent. */
const EXPONENT_FROM = 1e21;

/** As `std::to_string`: six places, and all digits before them. */
function fixed(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (Math.abs(value) < EXPONENT_FROM) return value.toFixed(6);
  return Number.isFinite(value) ? `${BigInt(value)}.000000` : `${value < 0 ? "-" : ""}inf`;
}
