/** How many LoRA adapters can a scrape speak of? */
import type { MetricsSource } from "./config/metrics-source.ts";

/** Most adapters loaded by requests that get a place of their own; more can be loaded and used, and are not named. */
const LOADED = 1024;
/** Characters of a name that a label shows. */
export const ADAPTER_NAME_SHOWN = 256;

/** By their numbers from 1: those of the command line, then those loaded while it runs. */
export function adapterPlaces({ models: { loraModules, runtimeLora } }: Pick<MetricsSource, "models">): number {
  return loraModules.length + (runtimeLora ? LOADED : 0);
}
