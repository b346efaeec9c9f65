/**
 * Estimates the weights of a model version in bytes: the parameter `understudy_weights`, else the size of its files without
 * text and code.
 */
import { readdirSync, statSync } from "node:fs";
import { extname, join } from "node:path";
import type { ModelConfig } from "../model-config/model-config.ts";
import { SIZE_FORMS, sizeIn } from "../model-config/sizes.ts";
import { internal } from "../model-config/status.ts";
import type { FoundModel } from "./repository.ts";

/** Extensions of files that do not contain weights. */
const TEXTS = new Set(
  ".cfg .csv .ini .js .json .jsonl .labels .log .md .mjs .pbtxt .py .pyc .sh .toml .ts .tsv .txt .xml .yaml .yml".split(
    " ",
  ),
);

export const configuredWeights = ({ parameters }: ModelConfig): string | undefined =>
  parameters?.understudy_weights?.string_value;

/**
 * Returns the weights of one version in bytes. Throws a `TritonError` if the parameter is not a size, or if the folder cannot
 * be read.
 */
export function versionWeightBytes({ config, path, broughtBytes }: FoundModel, version: number): number {
  const configured = configuredWeights(config);
  if (configured !== undefined) {
    const bytes = sizeIn(configured);
    if (bytes === undefined) throw internal(`parameter understudy_weights: ${SIZE_FORMS} is accepted`);
    return bytes;
  }
  if (broughtBytes === null) return bytesBelow(join(path, `${version}`));
  let all = 0;
  for (const [file, bytes] of broughtBytes) if (file.startsWith(`${version}/`) && isWeights(file)) all += bytes;
  return all;
}

const isWeights = (file: string): boolean => !TEXTS.has(extname(file).toLowerCase());

function bytesBelow(folder: string): number {
  try {
    return readdirSync(folder, { recursive: true, encoding: "utf8" }).reduce((all, file) => {
      const stats = isWeights(file) ? statSync(join(folder, file), { throwIfNoEntry: false }) : undefined;
      return stats?.isFile() ? all + stats.size : all;
    }, 0);
  } catch (error) {
    throw internal(`failed to read the version folder ${folder}: ${(error as Error).message}`);
  }
}
