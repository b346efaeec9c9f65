/**
 * Reads the class names of a model's outputs, one per line of `label_filename`. An ensemble output without a file takes the
 * names of the step that produces it. Source: `Model::Init`, `label_provider.cc` and `model_lifecycle.cc` (2026).
 */
import type { ModelConfig } from "../model-config/model-config.ts";
import { TritonError } from "../model-config/status.ts";
import { isWithin, modelFile } from "./model-file.ts";
import type { FoundModel } from "./repository.ts";

/** Class names by output name. Strings have one character per byte. */
export type ClassLabels = ReadonlyMap<string, readonly string[]>;

/** Largest size of a label file in bytes. */
const FILE_BYTES_MOST = 2 * 2 ** 20;

/**
 * Reads the label files of a model. Throws a `TritonError` if a file is missing. Returns nothing for files that a load request
 * contained, because only their sizes are stored.
 */
export function classLabels({ config, path, repository, broughtBytes }: FoundModel): ClassLabels {
  const labels = new Map<string, readonly string[]>();
  if (repository === "" || broughtBytes !== null) return labels;
  for (const { name, label_filename: filename = "" } of config.output ?? []) {
    if (filename === "") continue;
    const file = `${path}/${filename}`;
    if (!isWithin(path, file)) {
      const why = `label file path '${file}' for output '${name}' in model '${config.name}' is outside model directory`;
      throw new TritonError("UNSUPPORTED", why);
    }
    labels.set(name, linesOf(file));
  }
  return labels;
}

function linesOf(file: string): readonly string[] {
  const lines = modelFile(file, FILE_BYTES_MOST).toString("latin1").split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** Returns an ensemble's own labels together with those of its steps. */
export function withLabelsOfSteps(
  ensembleLabels: ClassLabels,
  config: ModelConfig,
  find: (name: string, version: number) => { readonly labels: ClassLabels },
): ClassLabels {
  const labels = new Map(ensembleLabels);
  const missing = new Set(
    (config.output ?? []).map(({ name }) => name).filter((name) => !ensembleLabels.get(name)?.[0]),
  );
  for (const { model_name: model = "", model_version: version = -1, output_map: outputs = {} } of config
    .ensemble_scheduling?.step ?? [])
    for (const [name, tensor] of Object.entries(outputs)) {
      if (!missing.has(tensor) || labels.has(tensor)) continue;
      const labelsOfOutput = find(model, version).labels.get(name);
      if (labelsOfOutput !== undefined) labels.set(tensor, labelsOfOutput);
    }
  return labels;
}
