/** Which preset carries this name, and which was measured for this model? */
import { models } from "./models.ts";
import type { Profile } from "./profile.ts";
import { profiles } from "./profiles/index.ts";

export const DEFAULT_PRESET = "llama-3.1-8b-bf16-h100-tp1-vllm";

export const presetNames: readonly string[] = profiles.map((profile) => profile.name);

export function findPreset(name: string): Profile | undefined {
  return profiles.find((profile) => profile.name === name);
}

/** Who names no GPU gets the first of these that was measured: the default preset's, then by how common they are. */
const GPUS = ["h100", "h200", "b200", "a100", "l40s"];

/**
 * The presets measured for the model of this name, the one to take first; none: []. A name is a hub's, with or without its
 * organisation, or the path of a folder. What it tells of the precision (`-FP8`) counts first, then the GPUs of one engine
 * (`tensorParallelSize`, if said), then weights as they were published, vLLM before other engines, and the GPU.
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
    .sort((a, b) => a.rank.map((one, i) => one - b.rank[i]!).find((difference) => difference !== 0) ?? 0)
    .map(({ profile }) => profile);
}

/** The key of `models`, undefined for one that was not measured, and the precision that the name tells. */
function readName(modelName: string): { readonly model: string | undefined; readonly precision: string | undefined } {
  const parts = modelName.split(/[\\/]/).filter(Boolean);
  // A folder of the hub's cache is models--org--name/snapshots/HASH.
  const cached = parts.findLast((part) => part.startsWith("models--"));
  const name = (cached?.split("--").at(-1) ?? parts.at(-1) ?? "").toLowerCase();
  const [, plain = name, precision] = /^(.+?)-(fp8|bf16|fp16|mxfp4)(?:-dynamic|-kv)?$/.exec(name) ?? [];
  const model = Object.keys(models).find((key) => plain === key || plain === nameOf(models[key]!.hub));
  const renamed = plain.replace(/^meta-/, "").replace(/-instruct$/, "");
  return {
    model: model ?? Object.keys(models).find((key) => key === renamed),
    precision: precision === "fp16" ? "bf16" : precision,
  };
}

const nameOf = (hub: string) => hub.slice(hub.indexOf("/") + 1).toLowerCase();
