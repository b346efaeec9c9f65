/** What do rules of `--fault-plan` see of a `ModelInferRequest`? What `/generate` would have: inputs and parameters by their names. */
import { type Datatype, elementsOf, fromBytesText, isDatatype, unpackTexts } from "../tensors/datatypes.ts";
import { caught } from "./answers.ts";
import { contentBytes, type InferMessage } from "./infer-request.ts";

/** Inputs of more bytes are not shown. */
const SHOWN_BYTES_MOST = 65_536;
/** Digits that an FP32 needs at least, and at most. */
const DIGITS = { least: 6, most: 9 };

/** An input of one element is that value, another one a flat list of them. Whatever cannot be read is left out. */
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

/** null: they are cut, or of 16 bits in floating point. */
function valuesOf(datatype: Datatype, data: Uint8Array): readonly unknown[] | null {
  if (datatype === "BYTES") return unpackTexts(data)?.map(fromBytesText) ?? null;
  if (datatype === "FP16" || datatype === "BF16") return null;
  const elements = Array.from(elementsOf(datatype, data) as Iterable<number | bigint>, Number);
  if (datatype === "BOOL") return elements.map(Boolean);
  return datatype === "FP32" ? elements.map(shortest) : elements;
}

/** The shortest number that is this FP32: 0.7, not 0.699999988079071. */
function shortest(value: number): number {
  for (let digits = DIGITS.least; digits < DIGITS.most; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return value;
}
