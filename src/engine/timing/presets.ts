/** Finds presets by name and by model. */
import { models } from "./models.ts";
import type { Profile } from "./profile.ts";
import { profiles } from "./profiles/index.ts";

export const DEFAULT_PRESET = "llama-3.1-8b-bf16-h100-tp1-vllm";

export const presetNames: readonly string[] = profiles.map((profile) => profile.name);

export function findPreset(name: string): Profile | undefined {
  return profiles.find((profile) => profile.name === name);
}

/** Preference of GPUs if the user names none: the default preset's, then by how common they are. */
const GPUS = ["h100", "h200", "b200", "a100", "l40s"];

/**
 * Returns the presets for a model name, the preferred one first, or []. The name is a hub's, with or without
 * organisation, or a folder. The precision in the name (`-FP8`) has priority. Then follow the number of GPUs of one
 * engine (`tensorParallelSize`, if given), weights as published, vLLM before other engines, and the GPU.
 */
export function presetsFor(modelName: string, tensorParallelSize?: number): readonly Profile[] {
  const { model, precision } = readName(modelName);
  const rank = (profile: Profile) => [
    Number(precision !== undefined && profile.precision !== precision),
    Number(tensorParallelSize !== undefined && profile.tp !== tensorParallelSize),
    Number(profile.precision !== "bf16"),
    Number(!profile.engine.startsWith("vllm 0.")),
    GPUS.indexOf(profile.gpu),
    profile.tp,
  ];
  return profiles
    .filter((profile) => profile.model === model)
    .map((profile) => ({ profile, rank: rank(profile) }))
    .sort((a, b) => a.rank.map((value, i) => value - b.rank[i]!).find((difference) => difference !== 0) ?? 0)
    .map(({ profile }) => profile);
}

/** Returns the key of `models`, or undefined for a model without measurements, and the precision in the name. */
function readName(modelName: string): { readonly model: string | undefined; readonly precision: string | undefined } {
  const parts = modelName.split(/[\\/]/).filter(Boolean);
  // A folder of the hub's cache is models--org--name/snapshots/HASH.
  const cacheFolder = parts.findLast((part) => part.startsWith("models--"));
  const name = (cacheFolder?.split("--").at(-1) ?? parts.at(-1) ?? "").toLowerCase();
  const [, plain = name, precision] = /^(.+?)-(fp8|bf16|fp16|mxfp4)(?:-dynamic|-kv)?$/.exec(name) ?? [];
  const model = Object.keys(models).find((key) => plain === key || plain === nameOf(models[key]!.hub));
  const renamed = plain.replace(/^meta-/, "").replace(/-instruct$/, "");
  return {
    model: model ?? Object.keys(models).find((key) => key === renamed),
    precision: precision === "fp16" ? "bf16" : precision,
  };
}

const nameOf = (hub: string) => hub.slice(hub.indexOf("/") + 1).toLowerCase();
