/** Number of LoRA adapters for which metrics have room. */
import type { MetricsSource } from "./config/metrics-source.ts";

/** Largest number of adapters loaded at run time that get their own numbers. More can be loaded and used, but metrics do not name them. */
const LOADED = 1024;
/** Characters of an adapter's name that a label shows. */
export const ADAPTER_NAME_SHOWN = 256;

/** Returns the number of adapters that metrics can name: those of the command line, numbered from 1, then those loaded at run time. */
export function adapterPlaces({ models: { loraModules, runtimeLora } }: Pick<MetricsSource, "models">): number {
  return loraModules.length + (runtimeLora ? LOADED : 0);
}
