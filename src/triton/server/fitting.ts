/** Can what comes to a behaviour be read by it, and what it gives be sent? */
import type { ModelResponse, ModelResults } from "../../repository/behaviours/behaviour.ts";
import type { ModelConfig } from "../../repository/config/model-config.ts";
import { internal, TritonError } from "../../repository/config/status.ts";
import type { BatchRow } from "../../repository/scheduling/scheduler.ts";
import {
  countedTexts,
  ELEMENT_BYTES,
  elementCount,
  isDatatype,
  type Tensor,
} from "../../repository/tensors/datatypes.ts";
import type { InferAnswer, InferRequest } from "./request.ts";

/** Nobody waits for what a slot without a request gives; `rows` null: there is none. */
export function awaitedResults(rows: readonly BatchRow<InferRequest>[] | null, results: ModelResults): ModelResults {
  if (rows === null || !Array.isArray(results) || results.length !== rows.length) return results ?? [];
  return results.filter((_, at) => rows[at]!.ready);
}

/** A response of the wrong shape is an error of the model. */
export function checkedResponse(response: ModelResponse, { name }: ModelConfig): InferAnswer | TritonError {
  if (typeof response !== "object" || response === null) return internal(`model '${name}' gave no response`);
  if ("error" in response) return new TritonError(response.error.code ?? "INTERNAL", response.error.message);
  if (!Array.isArray(response.outputs)) return internal(`model '${name}' gave a response without outputs`);
  for (const output of response.outputs)
    if (!isTensor(output))
      return internal(
        `model '${name}' gave an output '${String((output as Tensor | undefined)?.name)}' whose data do not fit its type and shape`,
      );
  return { outputs: response.outputs, parameters: NO_PARAMETERS };
}

const NO_PARAMETERS: InferAnswer["parameters"] = [];

function isTensor(output: Tensor): boolean {
  const { datatype, shape, data } = output ?? {};
  if (!isDatatype(String(datatype)) || !Array.isArray(shape) || !(data instanceof Uint8Array)) return false;
  return datatype === "BYTES" || data.length === elementCount(shape) * ELEMENT_BYTES[datatype];
}

/** What a backend says of texts whose length points beyond their tensor; undefined: nothing. */
export function incomplete({ name, datatype, data }: Tensor): string | undefined {
  if (datatype !== "BYTES" || countedTexts(data) !== undefined) return undefined;
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  for (let at = 0; at < data.length; ) {
    const length = view.getUint32(at, true);
    at += 4;
    if (at + length > data.length)
      return `incomplete string data for inference input '${name}', expecting string of length ${length} but only ${data.length - at} bytes available`;
    at += length;
  }
  return undefined;
}

/** Inferences in a batch. */
export function inferencesIn(batch: readonly InferRequest[]): number {
  let all = 0;
  for (const request of batch) all += request.batchSize;
  return all;
}

export const isIn = (batch: readonly InferRequest[], { ready, request }: BatchRow<InferRequest>) =>
  !ready || batch.includes(request);
