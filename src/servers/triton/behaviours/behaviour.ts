/**
 * Defines the interface of a `model.ts` next to a `config.pbtxt`, and of the built-in behaviours (docs/servers/triton.md). A real
 * Triton ignores `model.ts`, so that both can use the same folder.
 */
import type { LaneEnd } from "../../../engine/interface/lanes.ts";
import type { ModelConfig } from "../model-config/model-config.ts";
import type { StatusCode } from "../model-config/status.ts";
import type { Tensor } from "../tensors/datatypes.ts";

export type { Datatype, Tensor } from "../tensors/datatypes.ts";

/** Sends pieces of one text output directly to the client, without a response object. Pieces are UTF-8. */
export interface TextStream {
  /** True if the caller must escape the pieces for JSON. */
  readonly escaped: boolean;
  /** Set if the engine may write pieces without calling the behaviour. */
  readonly lane?: PlainLane;
  /** True if the client reads too slowly. Send ordinary responses until it is false again. */
  readonly full: boolean;
  write(piece: Uint8Array): void;
}

export interface PlainLane {
  readonly end: LaneEnd;
  /** Bytes before and after each piece. */
  readonly prefix: Uint8Array;
  readonly suffix: Uint8Array;
}

/** A request in a batch. */
export interface ModelRequest {
  readonly id: string;
  /** Input tensors by name, including the batch dimension if the model has one. BYTES data is in wire format. */
  readonly inputs: ReadonlyMap<string, Tensor>;
  /** The request's parameters as a JSON object, as Python models receive them. */
  readonly parameters: string;
  /** True if the client has cancelled the request or disconnected. */
  readonly cancelled: boolean;
  /**
   * Calls `act` when the request is cancelled, or now if it already is. `broken`: true if a fault plan has already sent the
   * client an error.
   */
  whenCancelled(act: (broken: boolean) => void): void;
  /**
   * Returns a sink for responses that contain only a piece of this text output, or null if there is none. Use it only after the
   * first response.
   */
  plainText(output: string): TextStream | null;
  /** Sends one response of a decoupled model; null and `final`: nothing more comes. */
  send(response: ModelResponse | null, final: boolean): void;
}

export interface ModelOutputs {
  readonly outputs: readonly Tensor[];
  /** Set if the request was not executed, so that no counter includes it. Only for behaviours with `countsAtEnd`. */
  readonly uncounted?: true;
}
/** An error response. The request still counts as a success, as in Triton's Python backend. */
export interface ModelFailure {
  readonly error: { readonly message: string; readonly code?: StatusCode };
  readonly uncounted?: true;
}
export type ModelResponse = ModelOutputs | ModelFailure;

/** The request on whose behalf a model calls another model. */
export interface StreamRequest extends Pick<ModelRequest, "whenCancelled"> {
  /** Id for the request to the other model. */
  readonly id: string;
}

/** The environment of a model instance. */
export interface ModelHost {
  readonly name: string;
  readonly version: number;
  readonly config: ModelConfig;
  /** Folder with the version's files. */
  readonly folder: string;
  sleep(ms: number): Promise<void>;
  /** Resolves after `ms` milliseconds of computation. Takes longer while other instances compute on the same GPU. */
  compute(ms: number): Promise<void>;
  /**
   * Returns the dimensions of the ensemble input that this output feeds, without the batch dimension, or undefined if there is
   * none.
   */
  shapeFor(output: string): readonly number[] | undefined;
  /** Returns a random number from 0 to below 1, derived from the server's seed. */
  random(): number;
  /** Sends a request to another model of the server. Resolves with its only response. */
  infer(model: string, inputs: readonly Tensor[]): Promise<ModelResponse>;
  /**
   * Sends a request to another model and yields its responses. The request is cancelled if the caller stops reading or if
   * `request` is cancelled.
   */
  stream(model: string, inputs: readonly Tensor[], request?: StreamRequest): AsyncIterable<ModelResponse>;
  /** Kills the instance, like a crashed process. Later requests to it fail. */
  die(): void;
}

/**
 * Computes the responses of a model. `execute` returns one response per request, in order. A decoupled model returns null and
 * calls `send`. An exception fails every request of the batch with Triton's message.
 */
export interface Behaviour {
  /** True if all responses use `send`, even if the model is not decoupled. */
  readonly sends?: boolean;
  /**
   * True if a request also counts only when its last response is sent, and does not occupy the instance until then, as in the
   * TensorRT-LLM backend.
   */
  readonly countsAtEnd?: boolean;
  initialize?(host: ModelHost): void | Promise<void>;
  execute(requests: readonly ModelRequest[], host: ModelHost): BatchResults | Promise<BatchResults>;
}
export type BatchResults = readonly ModelResponse[] | null;

/** An exception with the name of a Python exception. */
export class PythonError extends Error {
  constructor(name: string, message: string) {
    super(message);
    this.name = name;
  }
}
