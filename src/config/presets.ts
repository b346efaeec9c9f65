/** Which preset carries this name? */
import type { Profile } from "./profile.ts";
import { profiles } from "./profiles/index.ts";

export const DEFAULT_PRESET = "llama-3.1-8b-bf16-h100-tp1-vllm";

export const presetNames: readonly string[] = profiles.map((profile) => profile.name);

export function findPreset(name: string): Profile | undefined {
  return profiles.find((profile) => profile.name === name);
}
