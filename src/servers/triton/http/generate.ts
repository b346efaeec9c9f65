/**
 * Implements `/generate` and `/generate_stream`. A flat JSON object becomes tensors and parameters; each response becomes an
 * object or an event. Source: `HandleGenerate` in `http_server.cc` (2026). As in 2.51, errors of an accepted request have
 * status 400.
 */

import { atOnce, ITEMS_OF_A_PIECE, inTurns, isLarge, type Pieces } from "../../../base/pieces.ts";
import type { TextStream } from "../behaviours/behaviour.ts";
import type { ServerAround } from "../inference/around.ts";
import { EventQueue } from "../inference/event-queue.ts";
import type { InferAnswer, InferInput, InferRequest, RequestFields } from "../inference/request.ts";
import type { ModelVersion } from "../inference/served.ts";
import { maxBatchSize } from "../model-config/model-config.ts";
import { invalidArg, TritonError } from "../model-config/status.ts";
import type { VersionFacts } from "../model-config/versions.ts";
import { versionNumber } from "../models/version-number.ts";
import { asObject, asString, documentPieces, find, prefixed, within } from "../tensors/access.ts";
import { datatypeOf, fromBytesText, packTexts, type Tensor, toBytesText } from "../tensors/datatypes.ts";
import { type JsonNode, LongList } from "../tensors/json-nodes.ts";
import { elementsTexts, isOneElement, parameterText, rapidText, readElements } from "../tensors/tensor-json.ts";
import { errorText, type HandlerAnswer, type HttpCall, JSON_TYPE, LATER } from "./call.ts";
import { disturbed } from "./disturbed.ts";
import { isLargeAnswer } from "./infer-answer.ts";
import { parameterIn } from "./infer-body.ts";
import { beyond, fewMembers, fewOf, jsonBody, MEMBERS_MOST, mostInputBytes, shortName } from "./input-limit.ts";
import { loadMetrics } from "./load-metrics.ts";

export const generate = (call: HttpCall): Promise<HandlerAnswer> => handle(call, false);
export const generateStream = (call: HttpCall): Promise<HandlerAnswer> => handle(call, true);

async function handle(call: HttpCall, streams: boolean): Promise<HandlerAnswer> {
  const [name = "", version] = call.found;
  const { server } = call.around;
  const model = server.find(name, versionNumber(version));
  if ((call.header("content-encoding") ?? "identity") !== "identity")
    throw invalidArg("Unsupported content-encoding, only 'identity' is supported.");
  const body = await jsonBody(call);
  const instead = await disturbed(call, body);
  if (instead !== null) return instead;
  const fields = await read(body, model, call);
  const writer = new Writer(call, streams, fields.id, model);
  writer.request = server.infer(name, model.version, fields, writer);
  return LATER;
}

/** Parses a body, a large one in turns with other work. */
async function read(body: Uint8Array, model: ModelVersion, { held, around }: HttpCall) {
  const reading = readGenerate(body, model, around);
  if (!isLarge(body)) return atOnce(reading);
  return held.parse(body.length, async () => {
    const fields = await inTurns(reading, around.turns);
    held.free(body);
    return fields;
  });
}

/** Reads a body of /generate. Throws a `TritonError`. */
function* readGenerate(body: Uint8Array, model: ModelVersion, { server, config }: ServerAround): Pieces<RequestFields> {
  const { overHttp: limits } = config;
  const document = yield* documentPieces(body);
  const id = find(document, "id");
  const own = id === undefined ? "" : shortName("id", within("Unable to parse 'id'", asString, id));
  const inputs: InferInput[] = [];
  let consumed = 0;
  const parameters: RequestFields["parameters"][number][] = [];
  function* add(value: JsonNode, nested: boolean): Pieces<void> {
    const members = fewMembers(value, MEMBERS_MOST + (model.config.input?.length ?? 0));
    for (const [at, [name, one]] of members.entries()) {
      if ((at + 1) % ITEMS_OF_A_PIECE === 0) yield;
      const readable = fromBytesText(name);
      if (!nested && name === "parameters") {
        const object = within("Expected JSON object for keyword: 'parameters'", asObject, one);
        yield* withinPieces("Converting keyword: 'parameters'", add(object, true));
        continue;
      }
      const input = model.config.input?.find((tensor) => tensor.name === readable);
      if (input === undefined) {
        parameters.push([name, parameterIn(name, one)]);
        fewOf("parameters", parameters);
        continue;
      }
      const datatype = datatypeOf(input.data_type);
      const tensor = yield* tensorOf(readable, datatype, one, [...batchOf(model), ...input.dims], server.facts);
      const bytes = tensor.data.length;
      if (consumed + bytes > mostInputBytes(limits))
        throw beyond(
          limits,
          (most) =>
            `request size of ${consumed} bytes with input '${readable}' of size ${bytes} bytes exceeds the maximum allowed input size of ${most}.`,
        );
      consumed += bytes;
      if (inputs.some((earlier) => earlier.name === readable))
        throw invalidArg(`[request id: ${own || "<id_unknown>"}] input '${readable}' already exists in request`);
      inputs.push(tensor);
    }
  }
  yield* add(document, false);
  return { id: own, inputs, outputs: [], parameters, priority: 0, timeoutUs: 0 };
}

/** Does the same as `within`, for work in pieces. */
function* withinPieces<R>(prefix: string, work: Pieces<R>): Pieces<R> {
  try {
    return yield* work;
  } catch (error) {
    throw prefixed(prefix, error);
  }
}

const batchOf = ({ config }: ModelVersion): readonly number[] => (maxBatchSize(config) > 0 ? [-1] : []);

function* tensorOf(
  name: string,
  datatype: Tensor["datatype"],
  value: JsonNode,
  dims: readonly number[],
  { emptyTensors, missingElements }: VersionFacts,
): Pieces<InferInput> {
  const count = Array.isArray(value) || value instanceof LongList ? value.length : 1;
  if (count === 0 && !emptyTensors) return { name, datatype, shape: [], data: new Uint8Array() };
  function* read(): Pieces<Uint8Array> {
    const data = readElements(name, value, datatype, count, missingElements);
    return data instanceof Uint8Array ? data : yield* data;
  }
  // The real server checks strings before the shape.
  const texts = datatype === "BYTES" ? yield* read() : null;
  const shape = [...dims];
  let left = count;
  const unfit = () => invalidArg(`The schema can not convert input '${name}' to tensor with proper shape`);
  for (const dim of dims.toReversed()) {
    if (dim === -1) continue;
    if (left % dim !== 0) throw unfit();
    left /= dim;
  }
  for (let at = shape.length - 1; at >= 0; at--) {
    if (shape[at] !== -1) continue;
    shape[at] = left;
    left = 1;
  }
  if (left !== 1) throw unfit();
  return { name, datatype, shape, data: texts ?? (yield* read()) };
}

const STREAM = { "Content-Type": "text/event-stream; charset=utf-8" };
const NOT_ONE =
  "generate expects model to produce exactly 1 response, use generate stream for model that generates various number of responses";
const FAILED = 400;

/** Placeholder for the text in an event. */
const MARK = "\u007f\u007f";

/** Receives the responses of a request, and handles the client's disconnect. */
class Writer {
  /** The request to cancel if the client of a stream disconnects. Null before it starts. */
  request: InferRequest | null = null;
  readonly #events: EventQueue;
  #begun = false;
  /** Responses without a stream: one object each. A long one is formatted when it is sent. */
  readonly #whole: (string | InferAnswer)[] = [];
  /** True once the model writes events past the queue. */
  #isPlain = false;

  constructor(
    private readonly call: HttpCall,
    private readonly streams: boolean,
    private readonly id: string,
    private readonly model: ModelVersion,
  ) {
    if (streams) call.around.turns.opened?.();
    this.#events = new EventQueue(
      (owner, waiting) => call.open(owner, waiting),
      // While an answer is pending, the real server does not read from the connection and notices a disconnect only when it
      // writes.
      (broken) => {
        if (streams || broken) this.request?.leave(broken);
      },
      call.around.waiting,
      call.around.turns,
    );
  }

  respond(answer: InferAnswer | TritonError | null, final: boolean): void {
    let text: string | InferAnswer | null = null;
    let failed = answer instanceof TritonError;
    if (answer instanceof TritonError) text = errorText(answer.message);
    else if (answer !== null && !this.#isPlain && isLong(answer)) text = answer;
    else if (answer !== null) {
      try {
        text = objectText(answer, this.id, this.model);
      } catch (error) {
        if (!(error instanceof TritonError)) throw error;
        failed = true;
        text = errorText(error.message);
      }
    }
    if (!this.#begun) {
      this.#begun = true;
      const asked = this.call.header("endpoint-load-metrics-format");
      const load = asked === null ? {} : loadMetrics(asked, this.call.around.kvCache());
      this.call.begin(failed ? FAILED : 200, { ...(this.streams ? STREAM : JSON_TYPE), ...load });
    }
    if (text !== null) {
      if (this.streams) this.#write("data: ", text, "\n\n");
      else this.#whole.push(text);
    }
    if (!final) return;
    if (!this.streams) this.#write("", this.#whole.length === 1 ? this.#whole[0]! : errorText(NOT_ONE), "");
    this.#events.end(() => this.call.held.leave());
  }

  /** Returns a sink for events that differ only in their text, or null without a stream. */
  plainText(name: string): TextStream | null {
    if (!this.streams || this.#events.hadLong) return null;
    this.#isPlain = true;
    const output: Tensor = { name, datatype: "BYTES", shape: [1], data: packTexts([MARK]) };
    const parts = `data: ${objectText({ outputs: [output], parameters: [] }, this.id, this.model)}\n\n`.split(MARK);
    const [before, after] = parts.map((part) => Buffer.from(part, "latin1"));
    return parts.length === 2 ? this.#events.plain(before!, after!) : null;
  }

  #write(before: string, text: string | InferAnswer, after: string): void {
    if (typeof text === "string") {
      this.#events.write(Buffer.from(before + text + after, "latin1"));
      return;
    }
    const parts = bytesOf(objectTexts(text, this.id, this.model), before, after);
    const bytes = text.outputs.reduce((sum, { data }) => sum + data.length, 0);
    this.#events.writeLong(parts, bytes);
  }
}

/** True if an answer is sent in parts. Types that JSON cannot represent are rejected before anything is sent. */
const isLong = (answer: InferAnswer): boolean =>
  isLargeAnswer(answer) && answer.outputs.every(({ datatype }) => datatype !== "FP16" && datatype !== "BF16");

/** Yields the JSON object of an answer in parts: outputs, parameters, and the members of every answer, sorted by name. */
function* objectTexts(answer: InferAnswer, id: string, { name, version }: ModelVersion): Generator<string, void> {
  const members: (readonly [string, string | Tensor])[] = [
    ...(id === "" ? [] : [["id", rapidText(toBytesText(id))] as const]),
    ["model_name", rapidText(toBytesText(name))],
    ["model_version", `"${version}"`],
    ...answer.parameters.map(([key, value]) => [key, parameterText(value)] as const),
    ...answer.outputs.map((output) => [toBytesText(output.name), output] as const),
  ];
  let mark = "{";
  for (const [key, value] of members.sort(([a], [b]) => (a < b ? -1 : 1))) {
    yield `${mark}${rapidText(key)}:`;
    mark = ",";
    const isList = typeof value !== "string" && !isOneElement(value);
    if (isList) yield "[";
    yield* typeof value === "string" ? [value] : elementsTexts(value);
    if (isList) yield "]";
  }
  yield "}";
}

const objectText = (answer: InferAnswer, id: string, model: ModelVersion): string =>
  [...objectTexts(answer, id, model)].join("");

/** Approximate size of the parts of a long answer, in bytes. */
const PART_BYTES = 32_768;

/** Yields bytes of the texts in parts, between `before` and `after`. */
function* bytesOf(texts: Iterable<string>, before: string, after: string): Generator<Uint8Array, void> {
  let text = before;
  for (const piece of texts) {
    text += piece;
    if (text.length < PART_BYTES) continue;
    yield Buffer.from(text, "latin1");
    text = "";
  }
  yield Buffer.from(text + after, "latin1");
}
