/** Formats answers of `/infer`: JSON, then the binary tensors. Source: `FinalizeResponse` in `http_server.cc`. */
import type { Pieces } from "../../../base/pieces.ts";
import { type InferAnswer, parameterText } from "../inference/request.ts";
import type { ClassLabels } from "../models/labels.ts";
import { classified } from "../tensors/classified.ts";
import { type Datatype, type Tensor, toBytesText } from "../tensors/datatypes.ts";
import { elementsText, rapidText } from "../tensors/tensor-json.ts";
import { elementsTexts } from "../tensors/tensor-json-pieces.ts";
import type { InferWish, OutputWish } from "./infer-body.ts";

export interface AnsweredModel {
  readonly id: string;
  readonly name: string;
  readonly version: number;
  /** True if the first dimension is the batch. */
  readonly batched: boolean;
  readonly labels: ClassLabels;
}

export interface InferBody {
  /** The body. A string, with one character per byte, if it is only JSON. */
  readonly body: string | Uint8Array;
  /** Bytes of JSON at the start, or null if the whole body is JSON. */
  readonly head: number | null;
}

const shownOutput = (output: Tensor, { classes }: OutputWish, { batched, labels }: AnsweredModel): Tensor =>
  classes > 0 ? classified(output, classes, batched, labels.get(output.name)) : output;

/** Formats an answer. Throws a `TritonError` if an output cannot be sent in the requested form. */
export function inferBody(answer: InferAnswer, model: AnsweredModel, wish: InferWish): InferBody {
  const binary: Uint8Array[] = [];
  let outputs = "";
  for (const output of answer.outputs) {
    const how = wish.outputs.get(output.name) ?? wish.otherwise;
    const shown = shownOutput(output, how, model);
    outputs += `${outputs === "" ? "" : ","}${outputText(shown, how, binary)}`;
  }
  const text = `${beginning(answer, model)}${outputs}]}`;
  if (!binary.some(({ length }) => length > 0)) return { body: text, head: null };
  return { body: Buffer.concat([Buffer.from(text, "latin1"), ...binary]), head: text.length };
}

/** Returns the JSON before the first output. */
function beginning(answer: InferAnswer, model: AnsweredModel): string {
  const id = model.id === "" ? "" : `"id":${rapidText(toBytesText(model.id))},`;
  return `{${id}"model_name":${quotedOf(model.name)},"model_version":"${model.version}",${parametersText(answer)}"outputs":[`;
}

/** A large answer in parts. */
export interface InferParts {
  readonly parts: readonly Uint8Array[];
  /** Bytes of JSON at the start, or null if the whole body is JSON. */
  readonly head: number | null;
}

/** Formats an answer in parts, without a copy of binary tensors. Otherwise like `inferBody`. */
export function* inferParts(answer: InferAnswer, model: AnsweredModel, wish: InferWish): Pieces<InferParts> {
  const binary: Uint8Array[] = [];
  const parts: Uint8Array[] = [];
  let text = beginning(answer, model);
  let head = 0;
  const close = () => {
    head += text.length;
    parts.push(Buffer.from(text, "latin1"));
    text = "";
  };
  for (const [at, output] of answer.outputs.entries()) {
    const how = wish.outputs.get(output.name) ?? wish.otherwise;
    const shown = shownOutput(output, how, model);
    if (at > 0) text += ",";
    if (how.kind !== "json") {
      text += outputText(shown, how, binary);
      continue;
    }
    text += `${startOf(shown)},"data":[`;
    for (const elements of elementsTexts(shown)) {
      text += elements;
      if (text.length >= PART_BYTES) close();
      yield;
    }
    text += "]}";
  }
  text += "]}";
  close();
  const texts = parts.length;
  for (const data of binary)
    for (let from = 0; from < data.length; from += PART_BYTES) parts.push(data.subarray(from, from + PART_BYTES));
  return { parts, head: parts.length === texts ? null : head };
}

/** Approximate size of the parts of a large answer, in bytes. */
const PART_BYTES = 65_536;

/** Reports whether an answer is large enough to be sent in parts. */
export function isLargeAnswer({ outputs }: InferAnswer): boolean {
  let bytes = 0;
  for (const { data } of outputs) bytes += data.length;
  return bytes > PART_BYTES;
}

function parametersText({ parameters }: InferAnswer): string {
  if (parameters.length === 0) return "";
  return `"parameters":{${parameters.map(([name, value]) => `${rapidText(name)}:${parameterText(value)}`).join(",")}},`;
}

/** JSON of recent names of models and outputs, because they recur in every answer. */
const quoted = new Map<string, string>();
const starts = new Map<
  string,
  { readonly datatype: Datatype; readonly shape: readonly number[]; readonly text: string }
>();
const KEPT_MOST = 256;

function keep<T>(kept: Map<string, T>, name: string, made: T): void {
  if (kept.size >= KEPT_MOST) kept.clear();
  kept.set(name, made);
}

function quotedOf(name: string): string {
  const known = quoted.get(name);
  if (known !== undefined) return known;
  const made = rapidText(toBytesText(name));
  keep(quoted, name, made);
  return made;
}

/** Returns the JSON of an output up to and including its shape. */
function startOf({ name, datatype, shape }: Tensor): string {
  const known = starts.get(name);
  if (known !== undefined && known.datatype === datatype && areSame(known.shape, shape)) return known.text;
  const text = `{"name":${quotedOf(name)},"datatype":"${datatype}","shape":[${shape.join(",")}]`;
  keep(starts, name, { datatype, shape: [...shape], text });
  return text;
}

function areSame(a: readonly number[], b: readonly number[]): boolean {
  if (a.length !== b.length) return false;
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return false;
  return true;
}

function outputText(output: Tensor, { kind, put }: OutputWish, binary: Uint8Array[]): string {
  const { data } = output;
  const start = startOf(output);
  if (kind === "json") return `${start},"data":[${elementsText(output)}]}`;
  if (kind === "memory") {
    put!(data);
    return `${start}}`;
  }
  binary.push(data);
  return `${start},"parameters":{"binary_data_size":${data.length}}}`;
}
