/** How does an answer of `/infer` look? JSON, then the tensors that are wanted as they are: `http_server.cc`, `FinalizeResponse`. */
import { type InferAnswer, parameterText } from "../server/request.ts";
import { classified } from "../tensors/classified.ts";
import { type Tensor, toBytesText } from "../tensors/datatypes.ts";
import { rapidText, writeElements } from "../tensors/tensor-json.ts";
import type { InferWish, OutputWish } from "./infer-body.ts";

export interface AnsweredModel {
  readonly id: string;
  readonly name: string;
  readonly version: number;
  /** The first dimension is the batch's. */
  readonly batched: boolean;
}

export interface InferBody {
  readonly bytes: Uint8Array;
  /** How many of them are JSON; null: all. */
  readonly head: number | null;
}

/** Throws a `TritonError` where an output cannot be sent as it is wanted. */
export function inferBody(answer: InferAnswer, model: AnsweredModel, wish: InferWish): InferBody {
  const binary: Uint8Array[] = [];
  const outputs = answer.outputs.map((output) => {
    const how = wish.outputs.get(output.name) ?? wish.otherwise;
    return outputText(how.classes > 0 ? classified(output, how.classes, model.batched) : output, how, binary);
  });
  const parameters = answer.parameters.map(([name, value]) => `${rapidText(name)}:${parameterText(value)}`);
  const text = [
    ...(model.id === "" ? [] : [`"id":${rapidText(toBytesText(model.id))}`]),
    `"model_name":${rapidText(toBytesText(model.name))}`,
    `"model_version":"${model.version}"`,
    ...(parameters.length === 0 ? [] : [`"parameters":{${parameters.join(",")}}`]),
    `"outputs":[${outputs.join(",")}]`,
  ].join(",");
  const head = Buffer.from(`{${text}}`, "latin1");
  const sent = binary.filter(({ length }) => length > 0);
  if (sent.length === 0) return { bytes: head, head: null };
  return { bytes: Buffer.concat([head, ...sent]), head: head.length };
}

function outputText(output: Tensor, { kind, put }: OutputWish, binary: Uint8Array[]): string {
  const { name, datatype, shape, data } = output;
  const start = `{"name":${rapidText(toBytesText(name))},"datatype":"${datatype}","shape":[${shape.join(",")}]`;
  if (kind === "json") return `${start},"data":[${writeElements(output).join(",")}]}`;
  if (kind === "memory") {
    put!(data);
    return `${start}}`;
  }
  binary.push(data);
  return `${start},"parameters":{"binary_data_size":${data.length}}}`;
}
