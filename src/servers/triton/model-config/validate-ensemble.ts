/**
 * Checks that the steps of an ensemble connect its inputs to its outputs. Source: `ValidateEnsembleSchedulingConfig` in
 * `model_config_utils.cc` (2026), with its messages.
 */
import { firstOf, ITEMS_OF_A_PIECE, type Pieces } from "../../../base/pieces.ts";
import type { ModelConfig } from "./model-config.ts";

interface TensorNode {
  readonly name: string;
  ready: boolean;
  /** The step that produces the tensor, or null for an input of the ensemble. */
  from: StepNode | null;
  /** The steps that read the tensor. A step occurs once per input that reads it. */
  readonly into: StepNode[];
}

interface StepNode {
  readonly inputs: TensorNode[];
  readonly outputs: TensorNode[];
  /** Number of inputs that no earlier step has produced yet. */
  missing: number;
}

export function* wrongEnsemble(config: ModelConfig): Pieces<string | undefined> {
  const { name, platform, input: inputs = [], output: outputs = [] } = config;
  if (platform !== "ensemble")
    return `ensemble scheduling cannot be set for model '${name}' whose platform is not ensemble`;
  if (config.instance_group?.length) return `instance group should not be specified for ensemble '${name}'`;
  if (config.optimization !== undefined) return `optimization should not be specified for ensemble '${name}'`;
  if (config.model_warmup?.length) return `model_warmup can not be specified for ensemble '${name}'`;
  if (!config.ensemble_scheduling?.step?.length) return `must specify 'step' for ensemble '${name}'`;
  const graph = yield* graphOf(config);
  if (typeof graph === "string") return graph;
  const unused = yield* firstOf(inputs, (input) =>
    graph.has(input.name) ? undefined : `ensemble input '${input.name}' for ensemble ${name}' is not used`,
  );
  if (unused !== undefined) return unused;
  yield* flow(inputs.map((input) => graph.get(input.name)!));
  const unwritten = yield* firstOf(outputs, (output) => {
    const tensor = graph.get(output.name);
    if (tensor === undefined) return `ensemble output '${output.name}' for ensemble ${name}' is not used`;
    return tensor.ready ? undefined : notWritten(tensor, name);
  });
  if (unwritten !== undefined) return unwritten;
  const outputNames = new Set(outputs.map((output) => output.name));
  return yield* firstOf([...graph.values()], (tensor) =>
    outputNames.has(tensor.name) || (tensor.ready && tensor.into.length > 0)
      ? undefined
      : `ensemble tensor '${tensor.name}' is unused in ensemble '${name}'`,
  );
}

function* graphOf({ name, ensemble_scheduling: ensemble }: ModelConfig): Pieces<Map<string, TensorNode> | string> {
  const graph = new Map<string, TensorNode>();
  const node = (of: string): TensorNode => {
    const made = graph.get(of) ?? { name: of, ready: false, from: null, into: [] };
    graph.set(of, made);
    return made;
  };
  for (const [at, step] of (ensemble?.step ?? []).entries()) {
    const missing = (["model_name", "input_map", "output_map"] as const).find(
      (field) => !step[field] || Object.keys(step[field]).length === 0,
    );
    if (missing) return `must specify '${missing}' in step ${at} of ensemble '${name}'`;
    const made: StepNode = { inputs: [], outputs: [], missing: 0 };
    for (const tensor of Object.values(step.output_map!)) {
      const output = node(tensor);
      if (output.from !== null)
        return `ensemble tensor '${tensor}' can appear in an output map only once for ensemble '${name}' step ${at}`;
      output.from = made;
      if (made.outputs.push(output) % ITEMS_OF_A_PIECE === 0) yield;
    }
    for (const tensor of Object.values(step.input_map!)) {
      const input = node(tensor);
      input.into.push(made);
      made.missing++;
      if (made.inputs.push(input) % ITEMS_OF_A_PIECE === 0) yield;
    }
    if (at % ITEMS_OF_A_PIECE === 0) yield;
  }
  return graph;
}

/** Marks the tensors that can be computed from these inputs. */
function* flow(inputs: Iterable<TensorNode>): Pieces<void> {
  const ready = new Set(inputs);
  for (const tensor of ready) {
    tensor.ready = true;
    for (const step of tensor.into) if (--step.missing === 0) for (const output of step.outputs) ready.add(output);
    yield;
  }
}

function notWritten(output: TensorNode, name: string): string {
  const seen = new Set([output]);
  let last = output;
  for (let next: TensorNode | undefined = output; next !== undefined; ) {
    next = next.from?.inputs.find((input) => !input.ready && !seen.has(input));
    if (next === undefined) break;
    seen.add(next);
    last = next;
  }
  const why = last === output ? "" : `: at least one of its depending tensors, '${last.name}', is not connected`;
  return `output '${output.name}' for ensemble '${name}' is not written${why}`;
}
