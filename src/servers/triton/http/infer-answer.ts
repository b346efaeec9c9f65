/** Formats answers of `/infer`: JSON, then the binary tensors. Source: `FinalizeResponse` in `http_server.cc`. */
import type { Pieces } from "../../../base/pieces.ts";
import { type InferAnswer, parameterText } from "../inference/request.ts";
import type { ModelVersion } from "../inference/served.ts";
import { maxBatchSize } from "../model-config/model-config.ts";
import { classified } from "../tensors/classified.ts";
import { areSame, type Datatype, type Tensor, toBytesText } from "../tensors/datatypes.ts";
import { elementsTexts, rapidText } from "../tensors/tensor-json.ts";
import type { InferWish, OutputWish } from "./infer-body.ts";

type AnsweredModel = Pick<ModelVersion, "name" | "version" | "config" | "labels">;

/** The body of an answer: JSON, then binary tensors. */
export interface InferBody {
  /** Parts of the JSON of a long answer. */
  readonly texts: readonly Uint8Array[];
  /** The rest of the JSON, with one character per byte. */
  readonly text: string;
  readonly binary: readonly Uint8Array[];
  /** Bytes of JSON, or null if the whole body is JSON. */
  readonly head: number | null;
}

const shownOutput = (output: Tensor, { classes }: OutputWish, { config, labels }: AnsweredModel): Tensor =>
  classes > 0 ? classified(output, classes, maxBatchSize(config) > 0, labels.get(output.name)) : output;

/** Returns the JSON before the first output. */
function beginning(answer: InferAnswer, { name, version }: AnsweredModel, id: string): string {
  const idText = id === "" ? "" : `"id":${rapidText(toBytesText(id))},`;
  return `{${idText}"model_name":${quotedOf(name)},"model_version":"${version}",${parametersText(answer)}"outputs":[`;
}

/** Formats an answer in pieces. Throws a `TritonError` if an output cannot be sent in the requested form. */
export function* inferBody(answer: InferAnswer, model: AnsweredModel, wish: InferWish): Pieces<InferBody> {
  const binary: Uint8Array[] = [];
  const texts: Uint8Array[] = [];
  let text = beginning(answer, model, wish.fields.id);
  let head = 0;
  let mark = "";
  for (const output of answer.outputs) {
    const how = wish.outputs.get(output.name) ?? wish.otherwise;
    const shown = shownOutput(output, how, model);
    const { data } = shown;
    text += mark + startOf(shown);
    mark = ",";
    if (how.kind === "memory") how.put!(data);
    else if (how.kind === "binary") {
      binary.push(data);
      text += `,"parameters":{"binary_data_size":${data.length}}`;
    } else {
      text += ',"data":[';
      for (const elements of elementsTexts(shown)) {
        text += elements;
        if (text.length >= PART_BYTES) {
          head += text.length;
          texts.push(Buffer.from(text, "latin1"));
          text = "";
        }
        yield;
      }
      text += "]";
    }
    text += "}";
  }
  text += "]}";
  const isJson = binary.every(({ length }) => length === 0);
  return { texts, text, binary, head: isJson ? null : head + text.length };
}

/** Returns a short body. A string, with one character per byte, if it is only JSON. */
export const wholeBody = ({ texts, text, binary, head }: InferBody): string | Uint8Array =>
  texts.length === 0 && head === null ? text : Buffer.concat([...texts, Buffer.from(text, "latin1"), ...binary]);

/** Returns a large body in parts, without a copy of the tensors. */
export function bodyParts({ texts, text, binary }: InferBody): readonly Uint8Array[] {
  const parts = [...texts, Buffer.from(text, "latin1")];
  for (const data of binary)
    for (let from = 0; from < data.length; from += PART_BYTES) parts.push(data.subarray(from, from + PART_BYTES));
  return parts;
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
