/** The memory of the GPUs of a Triton server, and the engine's part of it. */

import type { Timing } from "../../engine/config/step-times.ts";
import { engineMemory } from "../../engine/timing/device-defaults.ts";
import { findPreset } from "../../engine/timing/presets.ts";
import type { KernelConfig } from "../../kernel/kernel-config.ts";
import type { TritonMemoryConfig } from "./config/triton-config.ts";
import type { DeviceMemoryOptions } from "./devices/device-memory.ts";

/** A preset's GPU has room for the engine, whatever its size. A GPU of a given size may be too small for it. */
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
