/** Presents a `ModelInferRequest` to the rules of `--fault-plan` like a body of `/generate`: inputs and parameters by name. */
import { type Datatype, elementsOf, fromBytesText, isDatatype, unpackTexts } from "../tensors/datatypes.ts";
import { caught } from "./answers.ts";
import { contentBytes, type InferMessage } from "./infer-request.ts";

/** Larger inputs are hidden from rules. */
const SHOWN_BYTES_MOST = 65_536;
/** Fewest and most digits that identify an FP32 number. */
const DIGITS = { least: 6, most: 9 };

/** Returns the body. An input with one element is that value; others are flat lists. Omits data that cannot be read. */
export function ruleBody(message: InferMessage): Readonly<Record<string, unknown>> {
  const { id = "", model_name: model = "", parameters = [], inputs = [], raw_input_contents: raw = [] } = message;
  const members: [string, unknown][] = [];
  for (const [name, { parameter_choice: choice }] of parameters)
    members.push([name, typeof choice?.value === "bigint" ? Number(choice.value) : choice?.value]);
  if (id !== "") members.push(["id", id]);
  let next = 0;
  for (const { name = "", datatype = "", contents, parameters: own } of inputs) {
    if (!isDatatype(datatype) || own?.has("shared_memory_region")) continue;
    const data = contents ? caught(() => contentBytes(contents, datatype, name, model)) : raw.at(next++);
    if (!(data instanceof Uint8Array) || data.length > SHOWN_BYTES_MOST) continue;
    const values = valuesOf(datatype, data);
    if (values !== null) members.push([name, values.length === 1 ? values[0] : values]);
  }
  return Object.fromEntries(members);
}

/** Returns the elements, or null if the data are truncated or have type FP16 or BF16. */
function valuesOf(datatype: Datatype, data: Uint8Array): readonly unknown[] | null {
  if (datatype === "BYTES") return unpackTexts(data)?.map(fromBytesText) ?? null;
  if (datatype === "FP16" || datatype === "BF16") return null;
  const elements = Array.from(elementsOf(datatype, data) as Iterable<number | bigint>, Number);
  if (datatype === "BOOL") return elements.map(Boolean);
  return datatype === "FP32" ? elements.map(shortest) : elements;
}

/** Returns the number with the fewest digits that is the same FP32: 0.7, not 0.699999988079071. */
function shortest(value: number): number {
  for (let digits = DIGITS.least; digits < DIGITS.most; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return value;
}
