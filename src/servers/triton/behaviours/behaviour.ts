/**
 * What does a model compute? The interface of a `model.ts` beside a `config.pbtxt`, and of the built-in behaviours:
 * docs/triton.md. A real Triton ignores the file, so one folder serves both.
 */
import type { LaneEnd } from "../../../engine/interface/lanes.ts";
import type { ModelConfig } from "../model-config/model-config.ts";
import type { StatusCode } from "../model-config/status.ts";
import type { Tensor } from "../tensors/datatypes.ts";

export type { Datatype, Tensor } from "../tensors/datatypes.ts";

/** Takes pieces of a text straight to the client: UTF-8. */
export interface PlainText {
  /** Pieces are to be escaped for JSON. */
  readonly escaped: boolean;
  /** Where the engine may write them by itself. */
  readonly lane?: PlainLane;
  /** The client does not keep up: what comes now is to be a response. */
  readonly full: boolean;
  write(piece: Uint8Array): void;
}

export interface PlainLane {
  readonly end: LaneEnd;
  /** Stand before and after each piece. */
  readonly prefix: Uint8Array;
  readonly suffix: Uint8Array;
}

/** One request of a batch. */
export interface ModelRequest {
  readonly id: string;
  /** By name; with the batch's dimension where the model has one. BYTES as the wire has them. */
  readonly inputs: ReadonlyMap<string, Tensor>;
  /** A JSON object, as Python models get it. */
  readonly parameters: string;
  /** The client is gone, or has said so. */
  readonly cancelled: boolean;
  /** Calls `act` once it is cancelled; at once where it is. `broken`: the client was told of an error, by a plan of faults. */
  whenCancelled(act: (broken: boolean) => void): void;
  /**
   * Where responses that are nothing but a piece of this output's one text may leave without being made, once the first one
   * was sent; null: nowhere.
   */
  plainText(output: string): PlainText | null;
  /** Sends one response of a decoupled model; null and `final`: nothing more comes. */
  send(response: ModelResponse | null, final: boolean): void;
}

export interface ModelOutputs {
  readonly outputs: readonly Tensor[];
  /** The request was never executed, and counts nowhere: for behaviours with `countsAtEnd`. */
  readonly uncounted?: true;
}
/** An answer that is an error; the request counts as a success all the same, as in Triton's Python backend. */
export interface ModelFailure {
  readonly error: { readonly message: string; readonly code?: StatusCode };
  readonly uncounted?: true;
}
export type ModelResponse = ModelOutputs | ModelFailure;

/** For whom another model is asked. */
export interface StreamFor extends Pick<ModelRequest, "whenCancelled"> {
  /** The request's id there. */
  readonly id: string;
}

/** What a model finds around it. */
export interface ModelHost {
  readonly name: string;
  readonly version: number;
  readonly config: ModelConfig;
  /** Where the version's files are. */
  readonly folder: string;
  sleep(ms: number): Promise<void>;
  /** Resolves after `ms` milliseconds of computation, which take longer while others compute on the instance's GPU. */
  compute(ms: number): Promise<void>;
  /** Dimensions of the input into which an ensemble puts this output, without the batch's; undefined: none does. */
  shapeFor(output: string): readonly number[] | undefined;
  /** Drawn from the server's seed: from 0 to below 1. */
  random(): number;
  /** Asks another model of the server and waits for its one response. */
  infer(model: string, inputs: readonly Tensor[]): Promise<ModelResponse>;
  /** Asks another model and gives each response as it comes. Whoever stops reading, or the cancelled `request`, cancels it. */
  stream(model: string, inputs: readonly Tensor[], request?: StreamFor): AsyncIterable<ModelResponse>;
  /** Ends the instance, as a process that dies: all it is asked fails from then on. */
  die(): void;
}

/**
 * `execute` gives one response per request, in their order; a decoupled model gives null and sends its responses. What it
 * throws fails every request of the batch, in Triton's words.
 */
export interface Behaviour {
  /** All answers go by `send`, also of a model that is not decoupled. */
  readonly sends?: boolean;
  /** Besides, a request counts when its last response is sent, and keeps no instance: as those of TensorRT-LLM's backend. */
  readonly countsAtEnd?: boolean;
  initialize?(host: ModelHost): void | Promise<void>;
  execute(requests: readonly ModelRequest[], host: ModelHost): ModelResults | Promise<ModelResults>;
}
export type ModelResults = readonly ModelResponse[] | null;

/** An exception with the name that it would have in Python. */
export class PythonError extends Error {
  constructor(name: string, message: string) {
    super(message);
    this.name = name;
  }
}
