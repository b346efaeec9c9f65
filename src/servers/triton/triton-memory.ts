/** Computes the GPU memory of a Triton server, and the engine's share of it. */

import type { Timing } from "../../engine/config/step-times.ts";
import { engineMemory } from "../../engine/timing/device-defaults.ts";
import { findPreset } from "../../engine/timing/presets.ts";
import type { KernelConfig } from "../../kernel/kernel-config.ts";
import type { TritonMemoryConfig } from "./config/triton-config.ts";
import type { DeviceMemoryOptions } from "./devices/device-memory.ts";

/** Returns the memory. A preset's GPU always has room for the engine; a configured size may be too small. */
export function deviceMemory(
  { engine, deployment: { preset } }: Pick<KernelConfig, "engine" | "deployment">,
  { deviceBytes, loadLimits }: Pick<TritonMemoryConfig, "deviceBytes" | "loadLimits">,
  { kind }: Pick<Timing, "kind">,
): DeviceMemoryOptions {
  const profile = findPreset(preset)!;
  const { weightBytes, kvBytes } = engineMemory(profile, engine);
  const presetBytes = Math.max(profile.gpuMemoryBytes, Math.ceil((weightBytes + kvBytes) / profile.tp));
  return {
    gpuBytes: deviceBytes ?? (kind === "table" ? presetBytes : null),
    engine: { weightBytes, kvBytes, gpus: profile.tp },
    loadLimits,
  };
}
