/** Checks a behaviour's inputs and converts its outputs to answers. */
import type { BatchResults, ModelResponse } from "../behaviours/behaviour.ts";
import { BACKENDS } from "../model-config/backends.ts";
import { type ModelConfig, maxBatchSize, type TensorConfig } from "../model-config/model-config.ts";
import { clientShape } from "../model-config/reshape.ts";
import { internal, invalidArg, TritonError } from "../model-config/status.ts";
import { byName } from "../model-config/step-shapes.ts";
import type { BatchRow } from "../scheduling/scheduler.ts";
import {
  countedTexts,
  ELEMENT_BYTES,
  elementCount,
  isDatatype,
  lengthAt,
  shapeText,
  type Tensor,
} from "../tensors/datatypes.ts";
import type { ImplicitStates } from "./implicit-state.ts";
import type { InferAnswer, InferRequest } from "./request.ts";

/** Drops the results of slots without a request. `rows` null: the batch has no slots. */
export function awaitedResults(rows: readonly BatchRow<InferRequest>[] | null, results: BatchResults): BatchResults {
  if (rows === null || !Array.isArray(results) || results.length !== rows.length) return results ?? [];
  return results.filter((_, at) => rows[at]!.ready);
}

/**
 * Checks answers against the model's configuration, like `AddOutput` in `infer_response.cc` (2026). Python backends drop
 * undeclared outputs (`PruneOutputTensors` in their `infer_response.cc`). If a configuration declares no outputs, the real
 * server reads them from the model's file; here all outputs are accepted.
 */
export class AnswerFit {
  readonly #model: string;
  readonly #outputs: ReadonlyMap<string, TensorConfig>;
  readonly #prunes: boolean;
  readonly #from: 0 | 1;
  readonly #states: ImplicitStates | null;

  constructor(config: ModelConfig, states: ImplicitStates | null) {
    this.#model = config.name;
    this.#outputs = byName(config.output ?? []);
    this.#prunes = BACKENDS[config.backend ?? ""]?.prunes === true;
    this.#from = maxBatchSize(config) === 0 ? 0 : 1;
    this.#states = states;
  }

  allChecked(batch: readonly InferRequest[], results: readonly ModelResponse[]): (InferAnswer | TritonError)[] {
    const answers: (InferAnswer | TritonError)[] = [];
    for (let at = 0; at < batch.length; at++) answers.push(this.checked(batch[at]!, results[at]!));
    return answers;
  }

  /** Converts a response to an answer. A malformed response becomes an error of the model. */
  checked(request: InferRequest, response: ModelResponse): InferAnswer | TritonError {
    const model = `model '${this.#model}'`;
    if (typeof response !== "object" || response === null) return internal(`${model} gave no response`);
    if ("error" in response) return new TritonError(response.error.code ?? "INTERNAL", response.error.message);
    if (!Array.isArray(response.outputs)) return internal(`${model} gave a response without outputs`);
    for (const output of response.outputs)
      if (!isTensor(output))
        return internal(
          `${model} gave an output '${String((output as Tensor | undefined)?.name)}' whose data do not fit its type and shape`,
        );
    const answer = { outputs: response.outputs, parameters: NO_PARAMETERS };
    return this.fitted(this.#states === null ? answer : this.#states.taken(request, answer));
  }

  /** Keeps the declared outputs, each in the client's shape. */
  fitted(answer: InferAnswer): InferAnswer | TritonError {
    if (this.#outputs.size === 0 || this.#fits(answer.outputs)) return answer;
    const outputs: Tensor[] = [];
    for (const output of answer.outputs) {
      const { name, shape } = output;
      const config = this.#outputs.get(name);
      if (config === undefined && this.#prunes) continue;
      if (config === undefined) return invalidArg(`unexpected inference output '${name}' for model '${this.#model}'`);
      const shown = clientShape(shape, config, this.#from);
      if (shown === undefined || elementCount(shown) !== elementCount(shape))
        return internal(
          `model '${this.#model}' gave an output '${name}' of shape ${shapeText(shape)}, which does not fit its reshape`,
        );
      outputs.push({ ...output, shape: shown });
    }
    return { ...answer, outputs };
  }

  /** True if the outputs need no conversion. */
  #fits(outputs: readonly Tensor[]): boolean {
    for (const { name } of outputs) {
      const config = this.#outputs.get(name);
      if (config === undefined || config.reshape !== undefined) return false;
    }
    return true;
  }
}

const NO_PARAMETERS: InferAnswer["parameters"] = [];

function isTensor(output: Tensor): boolean {
  const { datatype, shape, data } = output ?? {};
  if (!isDatatype(String(datatype)) || !Array.isArray(shape) || !(data instanceof Uint8Array)) return false;
  return datatype === "BYTES" || data.length === elementCount(shape) * ELEMENT_BYTES[datatype];
}

/** Returns the backend's error for a BYTES input whose last length exceeds the data, or undefined. */
export function incomplete({ name, datatype, data }: Tensor): string | undefined {
  if (datatype !== "BYTES" || countedTexts(data) !== undefined) return undefined;
  for (let at = 0; at < data.length; ) {
    const length = lengthAt(data, at);
    at += 4;
    if (at + length > data.length)
      return `incomplete string data for inference input '${name}', expecting string of length ${length} but only ${data.length - at} bytes available`;
    at += length;
  }
  return undefined;
}

/** Returns the number of inferences in a batch. */
export function inferencesIn(batch: readonly InferRequest[]): number {
  let all = 0;
  for (const request of batch) all += request.batchSize;
  return all;
}

export const isIn = (batch: readonly InferRequest[], { ready, request }: BatchRow<InferRequest>) =>
  !ready || batch.includes(request);
