/**
 * Adds the control tensors of sequences to the inputs of a request. Source: `SetControlTensors` in
 * `sequence_batch_scheduler.cc` (2026).
 */
import { controlOf, type ModelConfig, maxBatchSize, type SequenceControl } from "../model-config/model-config.ts";
import type { BatchRow } from "../scheduling/scheduler.ts";
import type { SequenceId } from "../scheduling/sequences.ts";
import { type Datatype, datatypeOf, ELEMENT_BYTES, packNumbers, packTexts, type Tensor } from "../tensors/datatypes.ts";
import type { InferRequest } from "./request.ts";

const KINDS = ["CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_END", "CONTROL_SEQUENCE_READY"] as const;

/** Returns the inputs with the controls. A slot without a request gets empty data. */
export function sequenceInputs(config: ModelConfig, row: BatchRow<InferRequest>): ReadonlyMap<string, Tensor> {
  const { request, ready } = row;
  const sequences = config.sequence_batching;
  if (sequences === undefined) return request.inputs;
  const inputs = new Map<string, Tensor>();
  for (const [name, tensor] of request.inputs) inputs.set(name, ready ? tensor : emptied(tensor));
  const shape = maxBatchSize(config) > 0 ? [1, 1] : [1];
  const { start, end, id } = request.sequence;
  for (const kind of KINDS) {
    const control = controlOf(sequences, kind);
    if (control === undefined) continue;
    const is =
      ready && { CONTROL_SEQUENCE_START: start, CONTROL_SEQUENCE_END: end, CONTROL_SEQUENCE_READY: true }[kind];
    inputs.set(control.name, { name: control.name, shape, ...flag(control.control, is) });
  }
  const idControl = controlOf(sequences, "CONTROL_SEQUENCE_CORRID");
  if (idControl !== undefined) {
    const datatype = datatypeOf(idControl.data_type ?? "TYPE_INVALID");
    inputs.set(idControl.name, { name: idControl.name, shape, datatype, data: idBytes(datatype, ready ? id : 0n) });
  }
  return inputs;
}

const emptied = (tensor: Tensor): Tensor => ({ ...tensor, data: new Uint8Array(tensor.data.length) });

function flag(control: SequenceControl, is: boolean): { datatype: Datatype; data: Uint8Array } {
  const at = is ? 1 : 0;
  const { int32_false_true: whole = [], fp32_false_true: real = [], bool_false_true: bool = [] } = control;
  if (whole.length > 0) return { datatype: "INT32", data: packNumbers("INT32", [whole[at]!]) };
  if (real.length > 0) return { datatype: "FP32", data: packNumbers("FP32", [real[at]!]) };
  return { datatype: "BOOL", data: Uint8Array.of(bool[at] ? 1 : 0) };
}

/** Encodes a correlation id. An integer type takes the lowest bytes of a number, or 0 if the id is a string. */
function idBytes(datatype: Datatype, id: SequenceId): Uint8Array {
  if (datatype === "BYTES") return packTexts([typeof id === "string" ? id : ""]);
  return packNumbers("UINT64", [typeof id === "string" ? 0n : id]).subarray(0, ELEMENT_BYTES[datatype]);
}
