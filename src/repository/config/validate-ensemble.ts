/** Does an ensemble's graph hold together? `ValidateEnsembleSchedulingConfig` of `model_config_utils.cc` (2026), in its words. */
import type { ModelConfig } from "./model-config.ts";

interface Tensor {
  readonly name: string;
  isOutput: boolean;
  ready: boolean;
  /** What it is made from, and what is made from it. */
  readonly from: Tensor[];
  readonly into: Tensor[];
}

export function wrongEnsemble(config: ModelConfig): string | undefined {
  const { name, platform } = config;
  if (platform !== "ensemble")
    return `ensemble scheduling cannot be set for model '${name}' whose platform is not ensemble`;
  if (config.instance_group?.length) return `instance group should not be specified for ensemble '${name}'`;
  if (config.optimization !== undefined) return `optimization should not be specified for ensemble '${name}'`;
  if (config.model_warmup?.length) return `model_warmup can not be specified for ensemble '${name}'`;
  if (!config.ensemble_scheduling?.step?.length) return `must specify 'step' for ensemble '${name}'`;
  const graph = graphOf(config);
  if (typeof graph === "string") return graph;
  const unused = [...(config.input ?? [])].find((input) => !graph.has(input.name));
  if (unused) return `ensemble input '${unused.name}' for ensemble ${name}' is not used`;
  flow((config.input ?? []).map((input) => graph.get(input.name)!));
  for (const output of config.output ?? []) {
    const tensor = graph.get(output.name);
    if (tensor === undefined) return `ensemble output '${output.name}' for ensemble ${name}' is not used`;
    if (!tensor.ready) return notWritten(tensor, name);
  }
  const outputs = new Set((config.output ?? []).map((output) => output.name));
  const idle = [...graph.values()].find((one) => !outputs.has(one.name) && (!one.ready || one.into.length === 0));
  return idle && `ensemble tensor '${idle.name}' is unused in ensemble '${name}'`;
}

function graphOf({ name, ensemble_scheduling: ensemble }: ModelConfig): Map<string, Tensor> | string {
  const graph = new Map<string, Tensor>();
  const node = (of: string): Tensor => {
    const made = graph.get(of) ?? { name: of, isOutput: false, ready: false, from: [], into: [] };
    graph.set(of, made);
    return made;
  };
  for (const [at, step] of (ensemble?.step ?? []).entries()) {
    const missing = (["model_name", "input_map", "output_map"] as const).find(
      (field) => !step[field] || Object.keys(step[field]).length === 0,
    );
    if (missing) return `must specify '${missing}' in step ${at} of ensemble '${name}'`;
    const made: Tensor[] = [];
    for (const tensor of Object.values(step.output_map!)) {
      const output = node(tensor);
      if (output.isOutput)
        return `ensemble tensor '${tensor}' can appear in an output map only once for ensemble '${name}' step ${at}`;
      output.isOutput = true;
      made.push(output);
    }
    for (const tensor of Object.values(step.input_map!)) {
      const input = node(tensor);
      for (const output of made) {
        output.from.push(input);
        input.into.push(output);
      }
    }
  }
  return graph;
}

/** Marks what can be made of these. */
function flow(ready: Tensor[]): void {
  for (const one of ready) one.ready = true;
  for (let at = 0; at < ready.length; at++) {
    for (const next of ready[at]!.into) {
      if (next.ready || next.from.some((one) => !one.ready)) continue;
      next.ready = true;
      ready.push(next);
    }
  }
}

function notWritten(output: Tensor, name: string): string {
  const seen = new Set([output]);
  let last = output;
  for (let next: Tensor | undefined = output; next !== undefined; ) {
    next = next.from.find((one) => !one.ready && !seen.has(one));
    if (next === undefined) break;
    seen.add(next);
    last = next;
  }
  const why = last === output ? "" : `: at least one of its depending tensors, '${last.name}', is not connected`;
  return `output '${output.name}' for ensemble '${name}' is not written${why}`;
}
