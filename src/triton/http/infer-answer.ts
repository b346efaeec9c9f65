/** How does an answer of `/infer` look? JSON, then the tensors that are wanted as they are: `http_server.cc`, `FinalizeResponse`. */
import { type InferAnswer, parameterText } from "../server/request.ts";
import { classified } from "../tensors/classified.ts";
import { type Tensor, toBytesText } from "../tensors/datatypes.ts";
import { elementsText, rapidText } from "../tensors/tensor-json.ts";
import type { InferWish, OutputWish } from "./infer-body.ts";

export interface AnsweredModel {
  readonly id: string;
  readonly name: string;
  readonly version: number;
  /** The first dimension is the batch's. */
  readonly batched: boolean;
}

export interface InferBody {
  /** A text of bytes, where there is nothing but JSON. */
  readonly body: string | Uint8Array;
  /** How many of them are JSON; null: all. */
  readonly head: number | null;
}

/** Throws a `TritonError` where an output cannot be sent as it is wanted. */
export function inferBody(answer: InferAnswer, model: AnsweredModel, wish: InferWish): InferBody {
  const binary: Uint8Array[] = [];
  let outputs = "";
  for (const output of answer.outputs) {
    const how = wish.outputs.get(output.name) ?? wish.otherwise;
    const shown = how.classes > 0 ? classified(output, how.classes, model.batched) : output;
    outputs += `${outputs === "" ? "" : ","}${outputText(shown, how, binary)}`;
  }
  const id = model.id === "" ? "" : `"id":${rapidText(toBytesText(model.id))},`;
  const name = rapidText(toBytesText(model.name));
  const text = `{${id}"model_name":${name},"model_version":"${model.version}",${parametersText(answer)}"outputs":[${outputs}]}`;
  if (!binary.some(({ length }) => length > 0)) return { body: text, head: null };
  return { body: Buffer.concat([Buffer.from(text, "latin1"), ...binary]), head: text.length };
}

function parametersText({ parameters }: InferAnswer): string {
  if (parameters.length === 0) return "";
  return `"parameters":{${parameters.map(([name, value]) => `${rapidText(name)}:${parameterText(value)}`).join(",")}},`;
}

function outputText(output: Tensor, { kind, put }: OutputWish, binary: Uint8Array[]): string {
  const { name, datatype, shape, data } = output;
  const start = `{"name":${rapidText(toBytesText(name))},"datatype":"${datatype}","shape":[${shape.join(",")}]`;
  if (kind === "json") return `${start},"data":[${elementsText(output)}]}`;
  if (kind === "memory") {
    put!(data);
    return `${start}}`;
  }
  binary.push(data);
  return `${start},"parameters":{"binary_data_size":${data.length}}}`;
}
