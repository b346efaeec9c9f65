/** How much memory have the GPUs of a Triton server, and what does the engine take of it? */

import { engineMemory } from "../../engine/timing/device-defaults.ts";
import { findPreset } from "../../engine/timing/presets.ts";
import type { KernelConfig } from "../../kernel/kernel-config.ts";
import type { TritonMemoryConfig } from "./config/triton-config.ts";
import type { DeviceMemoryOptions } from "./devices/device-memory.ts";

/** A preset's GPU is as large as what the engine was told to have there; one of a stated size is not. */
export function deviceMemory(
  { engine, deployment: { preset } }: Pick<KernelConfig, "engine" | "deployment">,
  { deviceBytes, loadLimits }: Pick<TritonMemoryConfig, "deviceBytes" | "loadLimits">,
): DeviceMemoryOptions {
  const profile = findPreset(preset)!;
  const { weightBytes, kvBytes } = engineMemory(profile, engine);
  const presetBytes = Math.max(profile.gpuMemoryBytes, Math.ceil((weightBytes + kvBytes) / profile.tp));
  return {
    gpuBytes: deviceBytes ?? (engine.timing.kind === "table" ? presetBytes : null),
    engine: { weightBytes, kvBytes, gpus: profile.tp },
    loadLimits,
  };
}
