/**
 * What are the classes of a model's outputs called? A line of `label_filename` each; of an ensemble's output that has none, as in
 * the step that it comes from: `Model::Init`, `label_provider.cc` and `model_lifecycle.cc` (2026).
 */
import { readFileSync, statSync } from "node:fs";
import { resolve, sep } from "node:path";
import type { ModelConfig } from "../model-config/model-config.ts";
import { internal, invalidArg, TritonError } from "../model-config/status.ts";
import type { FoundModel } from "./repository.ts";

/** By the output's name; texts of bytes. */
export type ClassLabels = ReadonlyMap<string, readonly string[]>;

/** Bytes of a file of labels, at most. */
const FILE_BYTES_MOST = 2 * 2 ** 20;

/** Throws a `TritonError` where a file is missing. Of files that the load brought along nothing but their sizes is known. */
export function classLabels({ config, path, repository, broughtBytes }: FoundModel): ClassLabels {
  const labels = new Map<string, readonly string[]>();
  if (repository === "" || broughtBytes !== null) return labels;
  for (const { name, label_filename: filename = "" } of config.output ?? []) {
    if (filename === "") continue;
    const file = `${path}/${filename}`;
    if (!resolve(file).startsWith(resolve(path) + sep)) {
      const why = `label file path '${file}' for output '${name}' in model '${config.name}' is outside model directory`;
      throw new TritonError("UNSUPPORTED", why);
    }
    labels.set(name, linesOf(file));
  }
  return labels;
}

function linesOf(file: string): readonly string[] {
  const found = statSync(file, { throwIfNoEntry: false });
  if (!found?.isFile()) throw internal(`failed to open text file for read ${file}: No such file or directory`);
  if (found.size > FILE_BYTES_MOST)
    throw invalidArg(`${file} has ${found.size} bytes: a stand-in takes ${FILE_BYTES_MOST}`);
  const lines = readFileSync(file, "latin1").split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** An ensemble's own labels, and those of its steps. */
export function withLabelsOfSteps(
  own: ClassLabels,
  config: ModelConfig,
  find: (name: string, version: number) => { readonly labels: ClassLabels },
): ClassLabels {
  const labels = new Map(own);
  const missing = new Set((config.output ?? []).map(({ name }) => name).filter((name) => !own.get(name)?.[0]));
  for (const { model_name: model = "", model_version: version = -1, output_map: outputs = {} } of config
    .ensemble_scheduling?.step ?? [])
    for (const [name, tensor] of Object.entries(outputs)) {
      if (!missing.has(tensor) || labels.has(tensor)) continue;
      const found = find(model, version).labels.get(name);
      if (found !== undefined) labels.set(tensor, found);
    }
  return labels;
}
