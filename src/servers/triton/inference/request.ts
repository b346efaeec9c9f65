/**
 * A request to a model. Checks its inputs against the model's configuration and determines the batch size, like
 * `InferenceRequest::Normalize` in `infer_request.cc` (2026), with its messages and its order.
 */
import type { TextStream } from "../behaviours/behaviour.ts";
import { controlOf, type ModelConfig, maxBatchSize, type TensorConfig } from "../model-config/model-config.ts";
import { modelShape } from "../model-config/reshape.ts";
import { invalidArg, type TritonError } from "../model-config/status.ts";
import type { SequenceRequest } from "../scheduling/sequence-batcher.ts";
import type { SequenceId } from "../scheduling/sequences.ts";
import {
  countedTexts,
  type Datatype,
  datatypeOf,
  ELEMENT_BYTES,
  elementCount,
  expectedSize,
  lengthAt,
  shapeText,
  type Tensor,
} from "../tensors/datatypes.ts";
import { type ParameterValue, parameterText, rapidText } from "../tensors/tensor-json.ts";
import type { ComputeTimes } from "./infer-counts.ts";

export type InferParameters = readonly (readonly [string, ParameterValue])[];

export interface InferAnswer {
  readonly outputs: readonly Tensor[];
  readonly parameters: InferParameters;
}

/** Receives responses. `final` is true exactly once: with the last response, or with null after it. */
export interface InferReceiver {
  respond(answer: InferAnswer | TritonError | null, final: boolean): void;
  /** Same as in `ModelRequest`. Absent: pieces of text cannot be sent. */
  plainText?(output: string): TextStream | null;
}

/** An input tensor as it was parsed. */
export interface InferInput extends Omit<Tensor, "datatype"> {
  readonly datatype: Datatype;
  /** The exact dimensions for error messages, if one exceeds 2^53. */
  readonly exactShape?: readonly bigint[];
}

/** The sequence of a request. An id of 0 or "" means no sequence. */
export interface SequenceFields {
  readonly id: SequenceId;
  readonly start: boolean;
  readonly end: boolean;
}
export const NO_SEQUENCE: SequenceFields = { id: 0n, start: false, end: false };

/** Returns the settings of a request without parameters. A parser of parameters then changes them. */
export const noSettings = () => ({
  /** Parameters that have no meaning for the server, which passes them on to the model. */
  parameters: [] as [string, ParameterValue][],
  priority: 0,
  timeoutUs: 0,
  sequence: NO_SEQUENCE,
  /** True if outputs that the request does not list are sent as binary data. Only in requests over HTTP. */
  binary: false,
  /** True if a final response without outputs is sent, too. Only in requests over gRPC. */
  emptyFinal: false,
});
export type RequestSettings = ReturnType<typeof noSettings>;

export interface RequestFields {
  readonly id: string;
  readonly inputs: readonly InferInput[];
  /** Tensors that the configuration does not declare and that are not checked. Only warm-up requests have them. */
  readonly overrides?: readonly Tensor[];
  /** Names of the requested outputs. Empty: all outputs. */
  readonly outputs: readonly string[];
  readonly parameters: InferParameters;
  readonly priority: number;
  readonly timeoutUs: number;
  readonly sequence?: SequenceFields;
  /** Data of a raw request, whose only input has neither name nor shape. */
  readonly raw?: Uint8Array;
}

export class InferRequest implements SequenceRequest {
  readonly id: string;
  readonly fields: RequestFields;
  readonly receiver: InferReceiver;
  readonly priority: number;
  readonly timeoutUs: number;
  /** Inputs as the model sees them: by name, in the client's order, reshaped as configured. */
  readonly inputs: ReadonlyMap<string, Tensor>;
  /** Batch size, or 0 if the model does not batch. */
  readonly batch: number;
  readonly #config: ModelConfig;
  readonly #given: readonly InferInput[];
  #likeness: string | null = null;
  sequence: SequenceFields;
  /** True if a fault plan has reported an error to the client, so that the request counts as failed. */
  broken = false;
  #cancelled = false;
  #cancelListeners: ((broken: boolean) => void)[] | null = null;
  /** Clock times in microseconds, set as the request progresses. */
  startUs = 0;
  queuedUs = 0;
  responded = false;
  /** Microseconds spent in the response cache. */
  cacheUs = 0;
  /** Called when the backend reports, so that an ensemble can add the times of its steps. Null: no ensemble. */
  reported: ((times: ComputeTimes) => void) | null = null;

  /** Throws a `TritonError` if the model refuses the request. */
  constructor(config: ModelConfig, fields: RequestFields, receiver: InferReceiver, checksSequenceId = true) {
    this.id = fields.id;
    this.fields = fields;
    this.receiver = receiver;
    this.priority = fields.priority;
    this.timeoutUs = fields.timeoutUs;
    const checker = new InputChecker(config, this);
    const given = fields.raw === undefined ? fields.inputs : [checker.raw(fields.raw)];
    this.batch = checker.check(given, fields.outputs);
    const inputs = new Map<string, Tensor>();
    for (const input of checker.checkedInputs) inputs.set(input.name, input);
    if (fields.overrides !== undefined) for (const input of fields.overrides) inputs.set(input.name, input);
    this.inputs = inputs;
    this.#config = config;
    this.#given = given;
    this.sequence = fields.sequence ?? NO_SEQUENCE;
    if (checksSequenceId) this.#checkSequence(config);
  }

  /** Requests with equal keys may share a batch. Computed at the first use, because a request that runs alone needs no key. */
  get likeness(): string {
    this.#likeness ??= likenessOf(this.#config, this.#given, this.batch);
    return this.#likeness;
  }

  get cancelled(): boolean {
    return this.#cancelled;
  }
  set cancelled(now: boolean) {
    this.#cancelled = now;
    if (!now || this.#cancelListeners === null) return;
    const listeners = this.#cancelListeners;
    this.#cancelListeners = null;
    for (const act of listeners) act(this.broken);
  }

  /** Cancels the request because nobody waits for it any more. */
  leave(broken: boolean): void {
    this.broken ||= broken;
    this.cancelled = true;
  }

  /** Calls `act` when the request is cancelled, or now if it already is. */
  whenCancelled(act: (broken: boolean) => void): void {
    if (this.#cancelled) act(this.broken);
    else if (this.#cancelListeners === null) this.#cancelListeners = [act];
    else this.#cancelListeners.push(act);
  }

  /** Checks that the correlation id and the control input are both numbers or both strings. */
  #checkSequence({ name, sequence_batching: sequences }: ModelConfig): void {
    const control = controlOf(sequences, "CONTROL_SEQUENCE_CORRID");
    if (control === undefined) return;
    const given = typeof this.sequence.id === "string" ? "BYTES" : "UINT64";
    const wanted = datatypeOf(control.data_type ?? "TYPE_INVALID");
    if ((given === "BYTES") === (wanted === "BYTES")) return;
    throw invalidArg(
      `${this.logged}sequence batching control '${control.name}' data-type is '${given}', but model '${name}' expects '${wanted}'`,
    );
  }

  get sequenceId(): SequenceId {
    return this.sequence.id;
  }
  get sequenceStart(): boolean {
    return this.sequence.start;
  }
  get sequenceEnd(): boolean {
    return this.sequence.end;
  }
  begin(id: bigint): void {
    this.sequence = { id, start: true, end: false };
  }

  get batchSize(): number {
    return Math.max(1, this.batch);
  }

  /** Prefix of the core's messages about this request. */
  get logged(): string {
    return `[request id: ${this.id === "" ? "<id_unknown>" : this.id}] `;
  }

  /** The parameters as JSON, as Python models read them. */
  get parameters(): string {
    const text = ([name, value]: InferParameters[number]) => `${rapidText(name)}:${parameterText(value)}`;
    return `{${this.fields.parameters.map(text).join(",")}}`;
  }
}

const SHAPE_NOTE =
  "NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each input shape. If you want to specify the full shape including the batch dim in your input dims config, try setting max_batch_size to zero. See the model configuration docs for more info on max_batch_size.";

/** Checks the inputs from the last to the first, which is the order of the real server's small hash maps. */
class InputChecker {
  readonly #most: number;
  /** The inputs after the check, as the model sees them. */
  checkedInputs: readonly Tensor[] = [];

  constructor(
    private readonly config: ModelConfig,
    private readonly request: { readonly logged: string },
  ) {
    this.#most = maxBatchSize(config);
  }

  raw(data: Uint8Array): InferInput {
    const { input = [], name } = this.config;
    const [only] = input;
    if (only === undefined || input.length !== 1)
      throw this.#wrong(
        `Raw request must only have 1 input (found 1) to be deduced but got ${input.length} inputs in '${name}' model configuration`,
      );
    const datatype = datatypeOf(only.data_type);
    const open = only.dims.filter((dim) => dim === -1).length;
    if (open > 1)
      throw this.#wrong(
        `The shape of the raw input '${only.name}' can not be deduced because there are more than one variable-sized dimension`,
      );
    const fixed = elementCount(only.dims.filter((dim) => dim !== -1));
    if (datatype === "BYTES") {
      if (open > 0 || fixed !== 1)
        throw this.#wrong(`For BYTE datatype raw input '${only.name}', the model must have input shape [1]`);
      const whole = Buffer.alloc(4 + data.length);
      whole.writeUInt32LE(data.length);
      whole.set(data, 4);
      return { name: only.name, datatype, shape: this.#batched(only.dims), data: whole };
    }
    const rest = Math.floor(data.length / fixed / ELEMENT_BYTES[datatype]);
    return { name: only.name, datatype, shape: this.#batched(only.dims.map((dim) => (dim === -1 ? rest : dim))), data };
  }

  /** Checks inputs and outputs. Returns the batch size. */
  check(inputs: readonly InferInput[], outputs: readonly string[]): number {
    const { name, output = [], input = [] } = this.config;
    for (const wanted of outputs)
      if (named(output, wanted) === undefined)
        throw invalidArg(`unexpected inference output '${wanted}' for model '${name}'`);
    this.#count(inputs);
    const configs = new Array<TensorConfig>(inputs.length);
    let reshapes = false;
    for (let at = inputs.length - 1; at >= 0; at--) {
      const given = inputs[at]!;
      const config = named(input, given.name);
      if (config === undefined) throw invalidArg(`unexpected inference input '${given.name}' for model '${name}'`);
      configs[at] = config;
      reshapes ||= config.reshape !== undefined;
    }
    const batch = this.#most === 0 ? 0 : this.#batch(inputs, configs);
    if (batch > this.#most) throw this.#wrong(`inference request batch-size must be <= ${this.#most} for '${name}'`);
    for (let at = inputs.length - 1; at >= 0; at--) this.#tensor(inputs[at]!, configs[at]!, batch);
    this.checkedInputs = reshapes ? inputs.map((one, at) => this.#reshaped(one, configs[at]!)) : inputs;
    return batch;
  }

  #reshaped(input: InferInput, config: TensorConfig): Tensor {
    return { ...input, shape: modelShape(input.shape, config, this.#most === 0 ? 0 : 1) };
  }

  #count(inputs: readonly InferInput[]): void {
    const { name, input = [] } = this.config;
    // Every input is present, so that none can be missing.
    if (inputs.length === input.length) return;
    const required = input.filter(({ optional }) => !optional).map((one) => one.name);
    if (inputs.length <= input.length && inputs.length >= required.length) return;
    const given = inputs.map((one) => one.name);
    const missing = required.filter((one) => !given.includes(one));
    const list = (names: readonly string[]) => names.map((one) => `'${one}'`).join(",");
    const expected =
      required.length === input.length
        ? `expected ${input.length} inputs`
        : `expected number of inputs between ${required.length} and ${input.length}`;
    // If no input is missing, the real server omits the brackets too.
    throw this.#wrong(
      `${expected} but got ${given.length} inputs for model '${name}'. Got input(s) [${list(given.toReversed())}], but missing required input(s) ${missing.length > 0 ? `[${list(missing)}` : ""}]. Please provide all required input(s).`,
    );
  }

  #batch(inputs: readonly InferInput[], configs: readonly TensorConfig[]): number {
    let batch = 0;
    for (let at = inputs.length - 1; at >= 0; at--) {
      const { name, shape } = inputs[at]!;
      if (configs[at]!.is_shape_tensor) continue;
      if (shape.length === 0)
        throw this.#wrong(`input '${name}' has no shape but model requires batch dimension for '${this.config.name}'`);
      if (batch === 0) batch = shape[0]!;
      else if (shape[0] !== batch)
        throw this.#wrong(`input '${name}' batch size does not match other inputs for '${this.config.name}'`);
    }
    return batch;
  }

  #tensor(input: InferInput, { data_type: type, dims }: TensorConfig, batch: number): void {
    const { name, datatype, shape, exactShape = shape, data } = input;
    const model = this.config.name;
    const wanted = datatypeOf(type);
    if (datatype !== wanted)
      throw this.#wrong(
        `inference input '${name}' data-type is '${datatype}', but model '${model}' expects '${wanted}'`,
      );
    const unfit = misfit(shape, this.#most === 0 ? 0 : 1, dims);
    if (unfit === "open")
      throw this.#wrong(
        `All input dimensions should be specified for input '${name}' for model '${model}', got ${shapeText(exactShape)}`,
      );
    if (unfit !== null) {
      const note = this.#most === 0 ? "" : SHAPE_NOTE;
      const expected = shapeText(this.#most === 0 ? dims : [-1, ...dims]);
      throw this.#wrong(
        `unexpected shape for input '${name}' for model '${model}'. Expected ${expected}, got ${shapeText(exactShape)}. ${note}`,
      );
    }
    // The batch size counts, whatever the shape says. A batch of 0 counts as a request without a batch.
    const count = this.#most === 0 ? elementCount(shape) : Math.max(1, batch) * elementCount(shape, 1);
    if (datatype === "BYTES") this.#texts(input, batch, count);
    else if (data.length !== count * ELEMENT_BYTES[datatype])
      throw this.#wrong(
        `input byte size mismatch for input '${name}' for model '${model}'. Expected ${expectedSize(input, this.#most > 0, batch)}, got ${data.length}`,
      );
  }

  #texts(input: InferInput, batch: number, count: number): void {
    const { name, data } = input;
    if (countedTexts(data) === count) return;
    const of = `for inference input '${name}' for model '${this.config.name}'`;
    let seen = 0;
    for (let at = 0; at < data.length; ) {
      if (data.length - at < 4)
        throw this.#wrong(
          `incomplete string length indicator ${of}, expecting 4 bytes but only ${data.length - at} bytes available. Please make sure the string length indicator is in one buffer.`,
        );
      if (++seen > count)
        throw this.#wrong(
          `unexpected number of string elements ${seen} ${of}, expecting ${expectedSize(input, this.#most > 0, batch)}`,
        );
      at += 4 + lengthAt(data, at);
    }
    if (seen !== count)
      throw this.#wrong(`expected ${expectedSize(input, this.#most > 0, batch)} string elements ${of}, got ${seen}`);
  }

  #batched(shape: readonly number[]): readonly number[] {
    return this.#most === 0 ? shape : [1, ...shape];
  }

  #wrong(why: string): TritonError {
    return invalidArg(this.request.logged + why);
  }
}

function named(list: readonly TensorConfig[], name: string): TensorConfig | undefined {
  for (const config of list) if (config.name === name) return config;
  return undefined;
}

/**
 * Compares the dimensions of a shape with the configured ones, from index `from` of the shape on. Returns null if the shape fits.
 * Returns "open" if a dimension is -1 and all dimensions before it fit, otherwise "other".
 */
function misfit(shape: readonly number[], from: number, dims: readonly number[]): "open" | "other" | null {
  if (shape.length - from !== dims.length) return "other";
  for (let at = 0; at < dims.length; at++) {
    if (shape[from + at] === -1) return "open";
    if (dims[at] !== -1 && dims[at] !== shape[from + at]) return "other";
  }
  return null;
}

/** Reports whether requests with different sizes of the input cannot share a batch. */
const varies = ({ dims, allow_ragged_batch: ragged }: TensorConfig) => ragged !== true && dims.includes(-1);

/** Returns a key that is equal for two requests if they have the same optional inputs and equal shapes of variable inputs. */
function likenessOf({ input = [] }: ModelConfig, given: readonly InferInput[], batch: number): string {
  const optional = input.some((one) => one.optional === true);
  // All requests to the model may share a batch.
  if (!optional && !input.some(varies)) return "";
  const text = (config: TensorConfig) => {
    const tensor = given.find(({ name }) => name === config.name);
    const shape = tensor && varies(config) ? shapeText(batch === 0 ? tensor.shape : tensor.shape.slice(1)) : "";
    return `${optional && tensor ? "+" : ""}${shape}`;
  };
  return input.map(text).join(";");
}
