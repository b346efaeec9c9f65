/**
 * Makes the input tensors of a request from the inputs that the model's configuration lists. Knows the names of text, length
 * and sampling inputs of the vLLM backend and of TensorRT-LLM's models. Other required inputs are filled with zeros.
 */
import { TraceError } from "../../../workloads/trace.ts";
import type { BodyOptions } from "./body.ts";
import { quoted } from "./quoted.ts";
import type { Turn } from "./types.ts";

/** A model with its inputs, from its configuration. */
export interface TritonInputs {
  readonly name: string;
  readonly decoupled: boolean;
  readonly inputs: readonly TritonInput[];
}

export interface TritonInput {
  readonly name: string;
  /** KServe's datatype, such as BYTES. */
  readonly datatype: string;
  /** Shape with the batch dimension. Dimensions of variable size are 1. */
  readonly shape: readonly number[];
  readonly optional: boolean;
}

export interface FilledTensor extends TritonInput {
  readonly data: readonly (string | number | boolean)[];
}

/** Describes an input. `dataType`: a type such as TYPE_STRING. */
export function inputOf(
  name: string,
  dataType: string,
  dims: readonly number[],
  optional: boolean,
  batched: boolean,
): TritonInput {
  const kind = dataType.replace(/^TYPE_/, "");
  const shape = [...(batched ? [1] : []), ...dims.map((dim) => Math.max(1, dim))];
  return { name, datatype: kind === "STRING" ? "BYTES" : kind, shape, optional };
}

const LENGTHS = ["max_tokens", "sampling_param_max_tokens", "sampling_parameters"];

/** Reports whether an input limits the length of the answer. */
export const takesLength = ({ inputs }: TritonInputs): boolean => inputs.some(({ name }) => LENGTHS.includes(name));

type Value = string | number | boolean | null;

/** Maximum number of elements of an input, because the dimensions come from the server. */
const ELEMENTS_MOST = 1 << 20;

/** Makes the tensors. `text`: the whole conversation with the new turn. Throws a TraceError for an input that is too large. */
export function tensorsOf(model: TritonInputs, text: string, turn: Turn, options: BodyOptions): FilledTensor[] {
  const { ignoreEos, minTokens, temperature, extraBody } = options;
  // A model that is not decoupled answers once, and refuses a request for a stream.
  const stream = options.stream && model.decoupled;
  const least = ignoreEos ? turn.outputTokens : minTokens;
  const sampling = {
    ...optionalField("max_tokens", turn.outputTokens),
    ...optionalField("min_tokens", least),
    ...optionalField("temperature", temperature),
    ...(ignoreEos ? { ignore_eos: true } : {}),
  };
  const known: Readonly<Record<string, Value>> = {
    text_input: text,
    max_tokens: turn.outputTokens,
    sampling_param_max_tokens: turn.outputTokens,
    min_tokens: least,
    temperature,
    sampling_param_temperature: temperature,
    stream,
    streaming: stream,
    exclude_input_in_output: true,
    exclude_input_from_output: true,
    sampling_parameters: JSON.stringify(sampling),
    ...(extraBody as Record<string, Value>),
    ...(turn.extra as Record<string, Value>),
  };
  return model.inputs.flatMap((input): FilledTensor[] => {
    const value = known[input.name] ?? null;
    if (value === null && input.optional) return [];
    const length = input.shape.reduce((all, size) => all * size, 1);
    if (!(length <= ELEMENTS_MOST)) {
      const most = `at most ${ELEMENTS_MOST} are sent`;
      throw new TraceError(`input ${quoted(input.name)} has ${length} elements by the model's configuration; ${most}`);
    }
    const zero = input.datatype === "BYTES" ? "" : input.datatype === "BOOL" ? false : 0;
    return [{ ...input, data: new Array(length).fill(value ?? zero) }];
  });
}

/** Returns an object with the field. Empty if the value is null. */
export const optionalField = (name: string, value: number | null) => (value === null ? {} : { [name]: value });

const WRITERS: Readonly<Record<string, readonly [bytes: number, write: (view: DataView, value: number) => void]>> = {
  BOOL: [1, (view, value) => view.setUint8(0, value)],
  UINT8: [1, (view, value) => view.setUint8(0, value)],
  INT8: [1, (view, value) => view.setInt8(0, value)],
  UINT16: [2, (view, value) => view.setUint16(0, value, true)],
  INT16: [2, (view, value) => view.setInt16(0, value, true)],
  FP16: [2, (view, value) => view.setFloat16(0, value, true)],
  BF16: [2, () => {}],
  UINT32: [4, (view, value) => view.setUint32(0, value, true)],
  INT32: [4, (view, value) => view.setInt32(0, value, true)],
  FP32: [4, (view, value) => view.setFloat32(0, value, true)],
  UINT64: [8, (view, value) => view.setBigUint64(0, wholeOf(value), true)],
  INT64: [8, (view, value) => view.setBigInt64(0, wholeOf(value), true)],
  FP64: [8, (view, value) => view.setFloat64(0, value, true)],
};

/** Converts to an integer, because the server may declare an integer type for a fractional value. */
const wholeOf = (value: number): bigint => BigInt(Number.isFinite(value) ? Math.trunc(value) : 0);

/** Encodes a tensor, little-endian. Each text comes after its length. */
export function bytesOfTensor({ name, datatype, data }: FilledTensor): Uint8Array {
  if (datatype === "BYTES")
    return Buffer.concat(
      data.flatMap((value) => {
        const text = Buffer.from(String(value));
        const length = Buffer.alloc(4);
        length.writeUInt32LE(text.length);
        return [length, text];
      }),
    );
  const writer = WRITERS[datatype];
  if (writer === undefined)
    throw new TraceError(`input ${quoted(name)} is of type ${quoted(datatype)}, which is not sent`);
  const [size, write] = writer;
  const bytes = new Uint8Array(size * data.length);
  for (const [at, value] of data.entries()) write(new DataView(bytes.buffer, at * size, size), Number(value));
  return bytes;
}
