/**
 * Keeps the implicit state of sequences (`sequence_batching { state }`). Each slot of an instance has its state tensors. The
 * model receives them as inputs and returns new ones as outputs. The first request of a sequence gets the initial state.
 * Sources: `sequence_state.cc` (2026) and Triton's documentation of the model configuration. Undefined initial content is zero
 * here.
 */
import { basename, join } from "node:path";
import { type ModelConfig, maxBatchSize, type SequenceState } from "../model-config/model-config.ts";
import { invalidArg } from "../model-config/status.ts";
import { modelFile } from "../models/model-file.ts";
import type { BatchRow } from "../scheduling/scheduler.ts";
import {
  type Datatype,
  datatypeOf,
  ELEMENT_BYTES,
  elementCount,
  packTexts,
  type Tensor,
} from "../tensors/datatypes.ts";
import type { InferAnswer, InferRequest } from "./request.ts";

/** Largest initial state in bytes. */
const BYTES_MOST = 64 * 2 ** 20;

interface StateTensor {
  readonly input: string;
  readonly output: string;
  readonly initial: Tensor;
  /** True if the state is also a declared output, so that the client receives it. */
  readonly isOutput: boolean;
}

export class ImplicitStates {
  readonly #states: readonly StateTensor[];
  /** State tensors by instance and slot. A missing entry means the initial state. */
  readonly #kept = new Map<string, ReadonlyMap<string, Tensor>>();
  readonly #slotOf = new Map<InferRequest, string>();

  /** Throws a `TritonError` if an initial state cannot be read. `folder`: the model's folder. */
  constructor(config: ModelConfig, folder: string) {
    this.#states = (config.sequence_batching?.state ?? []).map((state) => stateOf(state, config, folder));
  }

  /** Returns the inputs with the slot's state. A slot without a request gets the initial state, which has no meaning. */
  addTo(
    inputs: ReadonlyMap<string, Tensor>,
    instance: number,
    row: BatchRow<InferRequest>,
  ): ReadonlyMap<string, Tensor> {
    const { request, ready, slot } = row;
    const place = `${instance}/${slot}`;
    if (ready && request.sequence.start) this.#kept.delete(place);
    if (ready) this.#slotOf.set(request, place);
    const kept = ready ? this.#kept.get(place) : undefined;
    const all = new Map(inputs);
    for (const { input, initial } of this.#states) all.set(input, kept?.get(input) ?? initial);
    return all;
  }

  /** Stores the state from an answer, and returns the answer without outputs that the client must not receive. */
  taken(request: InferRequest, answer: InferAnswer): InferAnswer {
    const place = this.#slotOf.get(request);
    const kept = new Map(place === undefined ? [] : this.#kept.get(place));
    for (const { input, output } of this.#states) {
      const found = answer.outputs.find(({ name }) => name === output);
      if (found !== undefined) kept.set(input, { ...found, name: input });
    }
    if (place !== undefined) this.#kept.set(place, kept);
    const hidden = this.#states.filter(({ isOutput: shown }) => !shown).map(({ output }) => output);
    return { ...answer, outputs: answer.outputs.filter(({ name }) => !hidden.includes(name)) };
  }

  /** Ends a request. The last request of a sequence deletes its state. */
  over(request: InferRequest): void {
    const place = this.#slotOf.get(request);
    this.#slotOf.delete(request);
    if (place !== undefined && request.sequence.end) this.#kept.delete(place);
  }
}

function stateOf(state: SequenceState, config: ModelConfig, folder: string): StateTensor {
  const { input_name: input = "", output_name: output = "", dims = [], initial_state: [first] = [] } = state;
  const datatype = datatypeOf(first?.data_type ?? state.data_type ?? "TYPE_INVALID");
  const own = (first?.dims ?? dims).map((dim) => (dim === -1 ? 1 : dim));
  const shape = maxBatchSize(config) > 0 ? [1, ...own] : own;
  const count = elementCount(shape);
  const bytes = count * (ELEMENT_BYTES[datatype] || 4);
  const of = `state '${input}' of model '${config.name}'`;
  if (!(bytes <= BYTES_MOST)) throw invalidArg(`${of} has ${bytes} bytes: a stand-in takes ${BYTES_MOST}`);
  const file = first?.data_file;
  const data =
    file === undefined
      ? zeros(datatype, count)
      : modelFile(join(folder, "initial_state", basename(file)), BYTES_MOST, missingState);
  if (datatype !== "BYTES" && data.length !== bytes)
    throw invalidArg(`initial ${of} has ${data.length} bytes, expected ${bytes}`);
  const shown = (config.output ?? []).some(({ name }) => name === output);
  return { input, output, initial: { name: input, datatype, shape, data }, isOutput: shown };
}

const zeros = (datatype: Datatype, count: number): Uint8Array =>
  datatype === "BYTES" ? packTexts(new Array(count).fill("")) : new Uint8Array(count * ELEMENT_BYTES[datatype]);

const missingState = (file: string) => invalidArg(`failed to open initial state file ${file}`);
