/**
 * What does a model compute? The interface of a `model.ts` beside a `config.pbtxt`, and of the built-in behaviours:
 * docs/triton.md. A real Triton ignores the file, so one folder serves both.
 */
import type { ModelConfig } from "../config/model-config.ts";
import type { StatusCode } from "../config/status.ts";
import type { Tensor } from "../tensors/datatypes.ts";

export type { Datatype, Tensor } from "../tensors/datatypes.ts";

/** One request of a batch. */
export interface ModelRequest {
  readonly id: string;
  /** By name; with the batch's dimension where the model has one. BYTES as the wire has them. */
  readonly inputs: ReadonlyMap<string, Tensor>;
  /** A JSON object, as Python models get it. */
  readonly parameters: string;
  /** The client is gone, or has said so. */
  readonly cancelled: boolean;
  /** Sends one response of a decoupled model; null and `final`: nothing more comes. */
  send(response: ModelResponse | null, final: boolean): void;
}

export interface ModelOutputs {
  readonly outputs: readonly Tensor[];
}
/** An answer that is an error; the request counts as a success all the same, as in Triton's Python backend. */
export interface ModelFailure {
  readonly error: { readonly message: string; readonly code?: StatusCode };
}
export type ModelResponse = ModelOutputs | ModelFailure;

/** What a model finds around it. */
export interface ModelHost {
  readonly name: string;
  readonly version: number;
  readonly config: ModelConfig;
  sleep(ms: number): Promise<void>;
  /** Dimensions of the input into which an ensemble puts this output, without the batch's; undefined: none does. */
  shapeFor(output: string): readonly number[] | undefined;
  /** Drawn from the server's seed: from 0 to below 1. */
  random(): number;
  /** Asks another model of the server and waits for its one response. */
  infer(model: string, inputs: readonly Tensor[]): Promise<ModelResponse>;
  /** Ends the instance, as a process that dies: all it is asked fails from then on. */
  die(): void;
}

/**
 * `execute` gives one response per request, in their order; a decoupled model gives null and sends its responses. What it
 * throws fails every request of the batch, in Triton's words.
 */
export interface Behaviour {
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
