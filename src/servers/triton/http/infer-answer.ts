/** Formats answers of `/infer`: JSON, then the binary tensors. Source: `FinalizeResponse` in `http_server.cc`. */

import type { Pieces } from "../../../base/pieces.ts";
import type { InferAnswer } from "../inference/request.ts";
import type { ModelVersion } from "../inference/served.ts";
import { maxBatchSize } from "../model-config/model-config.ts";
import { classified } from "../tensors/classified.ts";
import { areSame, type Datatype, isAscii, type Tensor, toBytesText } from "../tensors/datatypes.ts";
import { elementsTexts, parameterText, rapidText } from "../tensors/tensor-json.ts";
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
  /** True if `text` is known to be ASCII, so that its characters need no check. */
  readonly ascii: boolean;
}

const shownOutput = (output: Tensor, { classes }: OutputWish, { config, labels }: AnsweredModel): Tensor =>
  classes > 0 ? classified(output, classes, maxBatchSize(config) > 0, labels.get(output.name)) : output;

/** Returns the JSON before the first output. */
function beginning(answer: InferAnswer, model: AnsweredModel, id: string): string {
  const named = namedBeginning(model);
  if (id === "" && answer.parameters.length === 0) return named;
  const idText = id === "" ? "" : `"id":${rapidText(toBytesText(id))},`;
  return `{${idText}${named.slice(1, -OUTPUTS.length)}${parametersText(answer)}${OUTPUTS}`;
}

/** Formats a short answer at once. Throws a `TritonError` if an output cannot be sent in the requested form. */
export function shortBody(answer: InferAnswer, model: AnsweredModel, wish: InferWish): InferBody {
  const text = new AnswerText(answer, model, wish);
  for (const output of answer.outputs) for (const elements of text.add(output)) text.addElements(elements);
  return text.whole();
}

/** Does the same as `shortBody` in pieces, for a long answer. */
export function* inferBody(answer: InferAnswer, model: AnsweredModel, wish: InferWish): Pieces<InferBody> {
  const text = new AnswerText(answer, model, wish);
  for (const output of answer.outputs)
    for (const elements of text.add(output)) {
      text.addElements(elements);
      yield;
    }
  return text.whole();
}

const NO_ELEMENTS: readonly string[] = [];

/** Builds the JSON and the binary tensors of an answer, one output after the other. */
class AnswerText {
  private readonly texts: Uint8Array[] = [];
  private readonly binary: Uint8Array[] = [];
  private text: string;
  private textBytes = 0;
  private ascii: boolean;
  /** Text that follows the elements of the last output. Empty before the first output. */
  private end = "";

  constructor(
    answer: InferAnswer,
    private readonly model: AnsweredModel,
    private readonly wish: InferWish,
  ) {
    const { id } = wish.fields;
    this.text = beginning(answer, model, id);
    this.ascii = id === "" && answer.parameters.length === 0 && isAscii(model.name);
  }

  /** Adds an output. Returns the texts of its elements, which the caller adds next. */
  add(output: Tensor): Iterable<string> {
    const how = this.wish.outputs.get(output.name) ?? this.wish.otherwise;
    const shown = shownOutput(output, how, this.model);
    const start = startOf(shown);
    this.ascii &&= start.ascii && shown.datatype !== "BYTES";
    const text = this.text + this.end + (this.end === "" ? "" : ",") + start.text;
    if (how.kind === "json") {
      this.text = `${text},"data":[`;
      this.end = "]}";
      return elementsTexts(shown);
    }
    this.text = text;
    this.end = "}";
    if (how.kind === "memory") how.put!(shown.data);
    else {
      this.binary.push(shown.data);
      this.end = `,"parameters":{"binary_data_size":${shown.data.length}}}`;
    }
    return NO_ELEMENTS;
  }

  addElements(elements: string): void {
    this.text += elements;
    if (this.text.length < PART_BYTES) return;
    this.textBytes += this.text.length;
    this.texts.push(Buffer.from(this.text, "latin1"));
    this.text = "";
  }

  whole(): InferBody {
    const { texts, binary, ascii } = this;
    const text = `${this.text}${this.end}]}`;
    const isJson = binary.every(({ length }) => length === 0);
    return { texts, text, binary, head: isJson ? null : this.textBytes + text.length, ascii };
  }
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

/**
 * Texts with which recent answers and outputs begin, by the name of the model or output. They are kept because they recur in
 * every answer.
 */
const beginnings = new Map<string, { readonly version: number; readonly text: string }>();
const starts = new Map<string, OutputStart>();
const KEPT_MOST = 256;
const OUTPUTS = '"outputs":[';

function keep<T>(kept: Map<string, T>, name: string, made: T): T {
  if (kept.size >= KEPT_MOST) kept.clear();
  kept.set(name, made);
  return made;
}

/** Returns the beginning of an answer without an id and parameters. */
function namedBeginning({ name, version }: AnsweredModel): string {
  const known = beginnings.get(name);
  if (known !== undefined && known.version === version) return known.text;
  const text = `{"model_name":${rapidText(toBytesText(name))},"model_version":"${version}",${OUTPUTS}`;
  return keep(beginnings, name, { version, text }).text;
}

/** The JSON of an output up to and including its shape. */
interface OutputStart {
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly text: string;
  readonly ascii: boolean;
}

function startOf({ name, datatype, shape }: Tensor): OutputStart {
  const known = starts.get(name);
  if (known !== undefined && known.datatype === datatype && areSame(known.shape, shape)) return known;
  const text = `{"name":${rapidText(toBytesText(name))},"datatype":"${datatype}","shape":[${shape.join(",")}]`;
  return keep(starts, name, { datatype, shape: [...shape], text, ascii: isAscii(text) });
}
